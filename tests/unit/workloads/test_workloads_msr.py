"""The reader of the Microsoft trace, and the rule that fills in what it does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gfs.domain.errors import BadRows, InputError
from gfs.workloads import read_msr

HEADER = "job_id,submission_time,duration,num_gpu\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster01.csv").write_text(HEADER + "x,0,100,1\ny,50,100,6\nz,200,400,20\n")
    (tmp_path / "cluster02.csv").write_text(HEADER + "x,10,30,8\n")
    return tmp_path


def test_jobs_become_pods_of_at_most_eight_cards(folder: Path) -> None:
    workload = read_msr(folder)
    assert [(t.name, t.organization, t.pods, t.gpus_per_pod) for t in workload.tasks] == [
        ("cluster01/x", "cluster01", 1, 1.0),
        ("cluster02/x", "cluster02", 1, 8.0),
        ("cluster01/y", "cluster01", 1, 6.0),
        ("cluster01/z", "cluster01", 3, 8.0),  # 20 GPUs, rounded up to 3 pods of 8
    ]
    assert [t.index for t in workload.tasks] == [0, 1, 2, 3]


def test_nodes_follow_from_the_load(folder: Path) -> None:
    # GPU-seconds: 100 + 240 + 600 + 9,600 = 10,540 over 200 s of submissions: 52.7 GPUs on average
    assert len(read_msr(folder, load=0.7).nodes) == 10  # 52.7 / 0.7 / 8 = 9.4
    assert len(read_msr(folder, load=1.0).nodes) == 7  # 6.6
    assert len(read_msr(folder, load=50).nodes) == 3  # the largest gang has 3 pods
    assert {n.gpus for n in read_msr(folder).nodes} == {8}


def test_the_class_depends_on_seed_and_job_only(tmp_path: Path) -> None:
    rows = [f"j{i},{i},10,1\n" for i in range(2000)]
    file = tmp_path / "cluster01.csv"

    def spot(lines: list[str], **options) -> set[str]:
        file.write_text(HEADER + "".join(lines))
        return {t.name for t in read_msr(file, **options).tasks if t.is_spot}

    usual = spot(rows)
    assert 0.17 < len(usual) / 2000 < 0.23
    assert spot(rows[::-1]) == usual
    assert spot(rows[:1000]) == {name for name in usual if int(name.split("/j")[1]) < 1000}
    assert spot(rows, seed=1) != usual
    assert usual < spot(rows, spot_share=0.5)
    assert spot(rows, spot_share=0.0) == set()
    assert len(spot(rows, spot_share=1.0)) == 2000


def test_the_merged_table(tmp_path: Path) -> None:
    file = tmp_path / "merged.csv"
    file.write_text("job_idx,cluster,submission_time,duration,num_gpu\n0,c7,5,10,1\n1,c8,6,10,2\n")
    assert [(t.name, t.organization) for t in read_msr(file).tasks] == [("c7/0", "c7"), ("c8/1", "c8")]


@pytest.mark.parametrize("row", ["x,0,1,0", "x,0,1,1.5", "x,-1,1,1", "x,0,-1,1", "x,0,,1", ",0,1,1", "x,0,nan,1"])
def test_bad_rows_are_listed(tmp_path: Path, row: str) -> None:
    file = tmp_path / "cluster01.csv"
    file.write_text(HEADER + "good,0,1,1\n" + row + "\n")
    with pytest.raises(BadRows) as caught:
        read_msr(file)
    assert [bad.row for bad in caught.value.rows] == [3]


def test_what_cannot_be_used_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cluster\*.csv"):
        read_msr(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_msr(tmp_path / "none.csv")
    with pytest.raises(InputError, match="spot_share"):
        read_msr(tmp_path, spot_share=1.5)
    with pytest.raises(InputError, match="load"):
        read_msr(tmp_path, load=0)
    (tmp_path / "a.csv").write_text("submission_time,duration,num_gpu\n1,2,3\n")
    with pytest.raises(InputError, match="job_id missing"):
        read_msr(tmp_path / "a.csv")
