// Who is on which GPU at a moment: one slot a GPU, nodes one after the other. Pods whose GPUs have no numbers (a live
// cluster only counts them) are drawn on the lowest that are free, in the order in which they came.
import { plural } from "./format";
import { type Moment, nextRun } from "./moment";

const EPS = 1e-6;

export class Cards {
  /** Where the GPUs of each node begin. */
  readonly first: number[] = [];
  readonly hp: Float32Array;
  readonly spot: Float32Array;
  readonly reserved: Uint8Array;
  /** The run that came last, or -1. */
  readonly run: Int32Array;
  readonly nodeHp: Float32Array;
  readonly nodeSpot: Float32Array;

  constructor(private readonly moment: Moment) {
    let count = 0;
    for (const gpus of moment.recording.wire.nodes.gpus) {
      this.first.push(count);
      count += gpus;
    }
    this.hp = new Float32Array(count);
    this.spot = new Float32Array(count);
    this.reserved = new Uint8Array(count);
    this.run = new Int32Array(count);
    this.nodeHp = new Float32Array(this.first.length);
    this.nodeSpot = new Float32Array(this.first.length);
    this.fill();
  }

  fill(): void {
    const { recording, running, heldFor, waiting, time } = this.moment;
    const { runs, tasks } = recording;
    for (const each of [this.hp, this.spot, this.reserved, this.nodeHp, this.nodeSpot]) each.fill(0);
    this.run.fill(-1);
    const { node, gpus, cards } = recording.wire.pods;
    const take = (run: number, pod: number): void => {
      const spot = tasks.spot[runs.task[run]!];
      const [shares, sums] = spot ? [this.spot, this.nodeSpot] : [this.hp, this.nodeHp];
      sums[node[pod]!]! += gpus[pod]!;
      for (const { slot, share } of this.slots(pod)) {
        shares[slot]! += share;
        const last = this.run[slot]!;
        if (last < 0 || runs.start[run]! >= runs.start[last]!) this.run[slot] = run;
      }
    };
    const counted: [number, number][] = [];
    for (const run of running.items) {
      for (const pod of this.podsOf(run)) {
        if (cards[pod]! < 0) counted.push([run, pod]);
        else take(run, pod);
      }
    }
    for (const [run, pod] of counted.sort((a, b) => a[1] - b[1])) take(run, pod);
    for (const task of heldFor.keys()) {
      const run = waiting.has(task) ? nextRun(recording, task, time) : -1;
      if (run >= 0) for (const pod of this.podsOf(run)) for (const { slot } of this.slots(pod)) this.reserved[slot] = 1;
    }
  }

  /** The pods of a run whose nodes are known. */
  private podsOf(run: number): number[] {
    const { runs, wire } = this.moment.recording;
    const first = runs.firstPod[run]!;
    return Array.from({ length: runs.pods[run]! }, (_, at) => first + at).filter((pod) => wire.pods.node[pod]! >= 0);
  }

  /** The GPUs of a pod: those whose numbers the log has, or else the lowest with room. */
  private slots(pod: number): { slot: number; share: number }[] {
    const { recording } = this.moment;
    const { nodes, pods } = recording.wire;
    const node = pods.node[pod]!;
    const first = this.first[node]!;
    const numbered = recording.cards[pods.cards[pod]!];
    if (numbered) return numbered.map(({ card, share }) => ({ slot: first + card, share }));
    const found: { slot: number; share: number }[] = [];
    const share = Math.min(pods.gpus[pod]!, 1);
    for (let slot = first, left = pods.gpus[pod]!; left > EPS && slot < first + nodes.gpus[node]!; slot++) {
      if (this.hp[slot]! + this.spot[slot]! + this.reserved[slot]! + share > 1 + EPS) continue;
      found.push({ slot, share });
      left -= share;
    }
    return found;
  }

  /** The runs on a node, in the order in which they came, each with the numbers or the count of its GPUs there. */
  on(node: number): { run: number; gpus: string }[] {
    const { recording, running } = this.moment;
    const { pods, cards } = recording.wire;
    const found: { run: number; gpus: string }[] = [];
    for (const run of running.items) {
      const here = this.podsOf(run).filter((pod) => pods.node[pod] === node);
      const numbers = here.map((pod) => cards[pods.cards[pod]!]).filter(Boolean);
      const count = here.reduce((sum, pod) => sum + pods.gpus[pod]!, 0);
      if (here.length) found.push({ run, gpus: numbers.length ? numbers.join("+") : plural(count, "GPU") });
    }
    return found.sort((a, b) => recording.runs.start[a.run]! - recording.runs.start[b.run]! || a.run - b.run);
  }
}
