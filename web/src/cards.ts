// Who is on which GPU at a moment: one slot a GPU, nodes one after the other.
import { type Moment, nextRun } from "./moment";

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
    for (const run of running.items) {
      const spot = tasks.spot[runs.task[run]!];
      const [shares, sums] = spot ? [this.spot, this.nodeSpot] : [this.hp, this.nodeHp];
      this.eachCard(run, (slot, share, node) => {
        shares[slot]! += share;
        sums[node]! += share;
        const last = this.run[slot]!;
        if (last < 0 || runs.start[run]! >= runs.start[last]!) this.run[slot] = run;
      });
    }
    for (const task of heldFor.keys()) {
      const run = waiting.has(task) ? nextRun(recording, task, time) : -1;
      if (run >= 0) this.eachCard(run, (slot) => (this.reserved[slot] = 1));
    }
  }

  eachCard(run: number, see: (slot: number, share: number, node: number) => void): void {
    const { recording } = this.moment;
    const { pods } = recording.wire;
    for (let pod = recording.runs.firstPod[run]!, end = pod + recording.runs.pods[run]!; pod < end; pod++) {
      const node = pods.node[pod]!;
      if (node < 0) continue;
      for (const { card, share } of recording.cards[pods.cards[pod]!]!) see(this.first[node]! + card, share, node);
    }
  }

  /** The runs on a node, in the order in which they came, each with its GPUs there as the log writes them. */
  on(node: number): { run: number; cards: string }[] {
    const { recording, running } = this.moment;
    const { pods, cards } = recording.wire;
    const found: { run: number; cards: string }[] = [];
    for (const run of running.items) {
      const here: string[] = [];
      for (let pod = recording.runs.firstPod[run]!, end = pod + recording.runs.pods[run]!; pod < end; pod++) {
        if (pods.node[pod] === node) here.push(cards[pods.cards[pod]!]!);
      }
      if (here.length) found.push({ run, cards: here.join("+") });
    }
    return found.sort((a, b) => recording.runs.start[a.run]! - recording.runs.start[b.run]! || a.run - b.run);
  }
}
