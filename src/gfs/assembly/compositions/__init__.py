"""The schedulers that come with GFS, one file each."""

from __future__ import annotations

from gfs.assembly.compositions.chronus import CHRONUS
from gfs.assembly.compositions.fgd import FGD
from gfs.assembly.compositions.gfs import ABLATIONS, GFS
from gfs.assembly.compositions.gfs_plus import GFS_PLUS
from gfs.assembly.compositions.lyra import LYRA
from gfs.assembly.compositions.static import STATIC
from gfs.assembly.compositions.yarn_cs import YARN_CS
from gfs.assembly.definitions import SchedulerDefinition

BUILT_IN: tuple[SchedulerDefinition, ...] = (GFS, GFS_PLUS, *ABLATIONS, CHRONUS, FGD, LYRA, STATIC, YARN_CS)
