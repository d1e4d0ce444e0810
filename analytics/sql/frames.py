"""The views of an archive as Polars LazyFrames, under their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from analytics.derived_tables.boards import ORDERED_PLIES, ORDERS
from analytics.sql import records, replays
from analytics.sql.expressions import PLY_BITS, board_text, opening_text, piece_name
from analytics.sql.files import ArchiveFiles, damage, require_whole
from analytics.sql.views import VIEWS, Pairing, pairings
from analytics.store.archive import unknown_run
from analytics.store.checked_files import CheckedFile, first_damaged
from analytics.store.schema import DECISIONS, FIRST_PLIES, GIFT, NOT_COUNTED, POSITIONS, TABLES
from quarto.batch import GAME_BITS
from quarto.errors import RequestError
from quarto.rules import NONE

_STORED = {**TABLES, "decisions": DECISIONS, "positions": POSITIONS, "first_plies": FIRST_PLIES}
_SMALL = (pl.Int8, pl.Int16)


def _score(seat: int) -> pl.Expr:
    """The score of the agent in a seat."""
    winner = pl.col("winner")
    return pl.when(winner == seat).then(1.0).when(winner == NONE).then(0.5).otherwise(0.0)


class Frames(ArchiveFiles):
    """The views as lazy frames. Columns, names and values are those of the views in SQL.

    With the argument ``run_id``, unlike with a filter on it, only the files of that run are read. Frames raise
    ``FailureError`` for a file or record that is missing or damaged, ``RequestError`` for a run that is not there.
    """

    def runs(self) -> pl.LazyFrame:
        """The view ``runs``: a row a run."""
        return records.frame("runs", self.archive).lazy()

    def results(self) -> pl.LazyFrame:
        """The view ``results``: a row a pairing, agent and seat."""
        return records.frame("results", self.archive).lazy()

    def sweeps(self) -> pl.LazyFrame:
        """The view ``sweeps``: a row a pairing of a sweep's job."""
        return records.frame("sweeps", self.archive).lazy()

    def verdicts(self) -> pl.LazyFrame:
        """The view ``verdicts``: a row a test of strength."""
        return records.frame("verdicts", self.archive).lazy()

    def agents(self) -> pl.LazyFrame:
        """The view ``agents``: a row an agent of a run, with its parameters."""
        return records.frame("agents", self.archive).lazy()

    def policies(self) -> pl.LazyFrame:
        """The view ``policies``: a row a policy."""
        return records.frame("policies", self.archive).lazy()

    def policy(self, name: str) -> pl.LazyFrame:
        """The table of a policy by its name or id; for a genome its genes, ``gene`` and ``value``.

        Small integers are widened to 32 bits. Raises ``RequestError`` if there is no such policy, ``FailureError`` if
        its file is not as it was written.
        """
        card = self._policy_card(name)
        file = self._sound_policy_file(card)
        if file is None:
            return pl.LazyFrame({"gene": [*card.parameters], "value": [*card.parameters.values()]})
        rows = pl.scan_parquet(
            str(self.place(file.path)),
            hive_partitioning=False,
            glob=False,
            **self.archive.backend.polars_options,
        )
        return rows.with_columns(pl.col(_SMALL).cast(pl.Int32))

    def games(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``games``: a row a game."""
        return self._scan("games", run_id)

    def plies(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``plies``: a row a ply. A filter on ``ply`` reads only the row groups with these plies."""
        return self._scan("plies", run_id)

    def seats(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``seats``: a row a game and seat."""
        games = self.games(run_id)
        names = [pl.col("agent_0").cast(pl.String), pl.col("agent_1").cast(pl.String)]
        halves = [
            games.with_columns(
                seat=pl.lit(seat, pl.Int32), agent=names[seat], opponent=names[1 - seat], score=_score(seat)
            )
            for seat in (0, 1)
        ]
        return pl.concat(halves).select(*VIEWS["seats"])

    def pairs(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``pairs``: a row a pair, with the scores of the pairing's first agent."""
        game = pl.col("game_id") & 1
        zero, one = pl.col("agent_0").cast(pl.String), pl.col("agent_1").cast(pl.String)
        each = self.games(run_id).with_columns(
            first=pl.when(game == 0).then(zero).otherwise(one),
            second=pl.when(game == 0).then(one).otherwise(zero),
            score_0=pl.when(game == 0).then(_score(0)),
            score_1=pl.when(game == 1).then(_score(1)),
        )
        kept = [pl.col("first").first(), pl.col("second").first(), pl.col("opening").first()]
        scores = [pl.col("score_0").max(), pl.col("score_1").max()]
        return each.group_by("run_id", "pair_id", "pairing").agg(*kept, *scores).select(*VIEWS["pairs"])

    def boards(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``boards``: a row a ply, with the board before it."""
        return _as_view("boards", self._replayed(replays.boards, VIEWS["boards"], run_id))

    def ordered_openings(self, plies: int, run_id: str | None = None) -> pl.LazyFrame:
        """``ordered_openings(k)``: the first ``plies`` (1 to 8) of each game that has them, up to symmetry.

        Raises ``RequestError`` for another number.
        """
        if not 1 <= plies <= ORDERED_PLIES:
            raise RequestError(f"ordered_openings({plies}): plies must be 1 to {ORDERED_PLIES}")
        rest = 1 << PLY_BITS * (ORDERED_PLIES - plies)
        rows = self._replayed(replays.orders, ("run_id", *ORDERS), run_id).filter(pl.col("ordered") >= plies)
        return rows.select(
            *("run_id", "game_id", "pairing", pl.col("outcome").cast(pl.Int32)),
            opening_text("pieces", "cells", plies).alias("opening"),
            *(pl.col(word) // rest * rest for word in ("pieces", "cells")),
        )

    def decisions(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``decisions``: a row a decision of annotated games."""
        rows = self._of_pairings("decisions", run_id, (pl.col("game_id") // (1 << GAME_BITS)).cast(pl.Int32))
        first = pl.col("seat") == (pl.col("game_id") & 1)
        return _as_view("decisions", rows.with_columns(
            kind=pl.when(pl.col("kind") == GIFT).then(pl.lit("gift")).otherwise(pl.lit("placement")),
            agent=pl.when(first).then("first_agent").otherwise("second_agent"),
            regret=pl.col("value_before") - pl.col("value_after"),
            choices="legal",
            saving=pl.when(pl.col("saving") != NOT_COUNTED).then("saving"),
        ))  # fmt: skip

    def positions(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``positions``: a row a position, turn and player. Raises ``FailureError`` until all are indexed."""
        self._require_indexed()
        rows = self._of_pairings("positions", run_id, pl.col("pairing"))
        first = pl.col("second") == 0
        hand = pl.when("mover_chooses").then(pl.lit("-")).otherwise(piece_name(pl.col("board") & 15))
        imposed = pl.col("imposed").replace_strict([0, 1, 2], ["nothing", "placement", "turn"])
        return _as_view("positions", rows.with_columns(
            position=pl.concat_str(board_text("occupied", "board"), pl.lit(" "), hand, "rules"),
            agent=pl.when(first).then("first_agent").otherwise("second_agent"),
            opponent=pl.when(first).then("second_agent").otherwise("first_agent"),
            piece=pl.when(pl.col("piece") != NONE).then("piece"),
            imposed=imposed,
            losses=pl.col("games") - pl.col("wins") - pl.col("draws"),
            sample_game=pl.col("pairing").cast(pl.Int64) * (1 << GAME_BITS) + pl.col("sample"),
        ))  # fmt: skip

    def first_plies(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``first_plies``: a row a pairing, agent that placed, piece and cell."""
        if run_id is not None:
            self._require_run(run_id)
        counted, rest = self.first_plies_files(run_id)
        key = ["run_id", "pairing", "second", "piece", "cell"]
        outcome = pl.col("outcome")
        of_plies = self._read("plies", rest, run_id).filter(pl.col("ply") == 0)
        of_plies = of_plies.with_columns(second=(1 - pl.col("game_id") % 2).cast(pl.Int32))
        plies = of_plies.group_by(key).agg(
            games=pl.len().cast(pl.Int64),
            wins=(outcome == 1).sum().cast(pl.Int64),
            draws=(outcome == 0).sum().cast(pl.Int64),
        )
        both = pl.concat([self._read("first_plies", counted, run_id), plies])
        rows = both.group_by(key).agg(pl.sum("games", "wins", "draws")).with_columns(number="pairing")
        first = pl.col("second") == 0
        return _as_view("first_plies", self._with_pairings(rows).with_columns(
            agent=pl.when(first).then("first_agent").otherwise("second_agent"),
            opponent=pl.when(first).then("second_agent").otherwise("first_agent"),
            losses=pl.col("games") - pl.col("wins") - pl.col("draws"),
        ))  # fmt: skip

    def _of_pairings(self, table: str, run_id: str | None, number: pl.Expr) -> pl.LazyFrame:
        """The rows of a derived table with the columns of ``Pairing``, whose ``number`` is that of each row."""
        return self._with_pairings(self._scan(table, run_id).with_columns(number=number))

    def _with_pairings(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows with the columns of ``Pairing``, by the columns ``run_id`` and ``number``."""
        known = pl.LazyFrame(pairings(self.archive), schema=list(Pairing._fields), orient="row")
        known = known.cast({"number": pl.Int32, "run": pl.String, "first_agent": pl.String, "second_agent": pl.String})
        return rows.join(known, left_on=["run_id", "number"], right_on=["run", "number"])

    def _replayed(
        self, replay: Callable[..., pl.LazyFrame], columns: Iterable[str], run_id: str | None
    ) -> pl.LazyFrame:
        self._require_sound({"plies"})
        of_runs = [
            replay(self.archive, each).select(pl.lit(each).alias("run_id"), pl.all())
            for each in ([run_id] if run_id is not None else self.archive.run_ids())
            if self._require_run(each)
        ]
        return pl.concat(of_runs) if of_runs else pl.LazyFrame(schema=dict.fromkeys(columns, pl.Int64))

    def _require_run(self, run_id: str) -> bool:
        """Raise ``RequestError`` unless a run is in the archive."""
        if run_id not in self.archive.run_ids() and self.archive.run(run_id) is None:
            raise unknown_run(self.archive, run_id, self.archive.run_ids())
        return True

    def _scan(self, table: str, run_id: str | None) -> pl.LazyFrame:
        files = self._files_of(table)
        if run_id is not None:
            self._require_run(run_id)
            files = [file for file in files if file.run_id == run_id]
        return self._read(table, files, run_id)

    def _read(self, table: str, files: Sequence[CheckedFile], run_id: str | None) -> pl.LazyFrame:
        """The rows of files with the columns of a table. Raises ``FailureError`` if one is not as it was written."""
        if table in self._unchecked:
            new = [file for file in files if file.path not in self._sound]
            damaged = first_damaged(self._root, new)
            if damaged is not None:
                raise damage(damaged)
            self._sound.update(file.path for file in new)
        require_whole(files)
        widened = {name: pl.Int32() if kind == pl.Int8 else kind for name, kind in _STORED[table].items()}
        if not files:
            return pl.LazyFrame(schema={"run_id": pl.String(), **widened})
        # The scan itself widens: with a cast after it, filters could not skip row groups.
        frame = pl.scan_parquet(
            [str(self.place(file.path)) for file in files],
            schema=widened,
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            hive_partitioning=False,  # it would read folders above the archive as columns
            glob=False,
            include_file_paths="path",
            **self.archive.backend.polars_options,
        )
        run_of_file = pl.lit(run_id) if run_id is not None else pl.col("path").str.extract("/run=([0-9a-f]{12})/[^/]*$")
        return frame.select(run_of_file.alias("run_id"), *widened)


def _as_view(view: str, rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns of a view, in their order and of their types."""
    return rows.select(pl.col(name).cast(records.polars_type(kind)) for name, kind in VIEWS[view].items())
