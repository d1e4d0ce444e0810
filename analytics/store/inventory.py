"""Whether a run still has what its record says it had."""

from __future__ import annotations

from analytics.store.archive import Archive
from analytics.store.range_names import Ranges
from analytics.store.records import RunRecord
from analytics.store.units import Range
from quarto.errors import FailureError

REMEDY = "restore them from a copy, or give the command of the run (see 'qarena archive ls') again, which plays them"


def lost_units(record: RunRecord, ranges: Ranges) -> list[Range]:
    """The ranges of units that a run had when its record was written and has no longer, as far as that is known.

    Nothing is lost if the run has as many units as then: they may have been played again.
    """
    if ranges.units >= record.units:
        return []
    return ranges.missing(max(record.units, int(ranges.ends[-1]) if len(ranges) else 0))


def require_whole(archive: Archive, run_id: str, record: RunRecord | None) -> None:
    """Raise ``FailureError`` if a run has lost games since its record was written."""
    lost = lost_units(record, archive.ranges(run_id)) if record else []
    if lost:
        first, end = lost[0]
        raise FailureError(
            f"{archive.folder('games', run_id)} lacks units {first} to {end - 1}, which were there, and their games "
            f"with them: {REMEDY}"
        )


def has_all(record: RunRecord, ranges: Ranges) -> bool:
    """Whether a run has all units that were asked for. Never known of imported games."""
    return "imported" not in record.spec and not ranges.missing(record.end_unit)
