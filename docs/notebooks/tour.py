"""A tour of the library: play, rate, judge, learn, sweep, and take the rows elsewhere.

Open it with `marimo edit docs/notebooks/tour.py`, or run it with `python`, which prints the answers. All games go to a
temporary archive.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo

    mo.md("""
    # A tour of the library

    `quarto` has the game, `analytics` the archive and every question to it, `runners` whatever plays or learns. An
    answer is a `Result`: a notebook shows it as a table with pictures, `print` as the terminal does, and its `frame`
    is a Polars frame with all rows.
    """)


@app.cell
def _():
    import tempfile
    from pathlib import Path

    from analytics import open_archive
    from quarto import solve
    from runners import annotate, build_policy, rebuild_policy, run, sweep, train

    folder = Path(tempfile.mkdtemp())
    root = folder / "archive"
    return annotate, build_policy, folder, open_archive, rebuild_policy, root, run, solve, sweep, train


@app.cell
def _(root, run):
    # Agents are labels, or objects of your own class. A position has the free cells and the pieces that are left; the
    # answer is a cell for the piece in hand and the next piece to give, -1 if none is left.
    class WinOrFirst:
        def choose(self, position, rng):
            cell = (position.winning_cells() or position.free)[0]
            return cell, int(rng.choice(position.available)) if position.available else -1

    match = run(WinOrFirst(), "dumb", games=100, archive=root, progress=False)
    print(match)
    match
    return (match,)


@app.cell
def _(root, run):
    # More agents are a tournament. The same call plays only what is missing.
    tournament = run("random", "dumb", "semi_random", "rule_based", games=100, seed=7, archive=root, progress=False)
    print(tournament)
    tournament
    return (tournament,)


@app.cell
def _(annotate, open_archive, root, tournament):
    # Every decision is judged by exact values. Regret is what it gave up, in half-points; a row by ply has a ply.
    mistakes = annotate(root, run=tournament.run_id)
    # An archive is as it was when it was opened: open it after you played, or refresh() it.
    archive = open_archive(root)
    print(archive.runs())
    print(mistakes.frame.filter(mistakes.frame["ply"].is_null()))
    mistakes
    return archive, mistakes


@app.cell
def _(archive):
    ratings = archive.ratings(rules="classic", anchor="random")
    print(ratings)
    ratings
    return (ratings,)


@app.cell
def _(archive):
    # What was played at the start, up to symmetry; a position is four rows, then the piece in hand.
    openings = archive.openings("..../..../..../.... 7", agent="semi_random")
    print(openings)
    openings
    return (openings,)


@app.cell
def _(archive, solve, tournament):
    # One game, decision by decision, and the exact value of the position before its last one.
    game = archive.game(tournament.run_id, 0)
    print(game)
    print(solve(game.frame["position"][-1]).value)
    game
    return (game,)


@app.cell
def _(root, train):
    # A trainer plays and learns; the answer is its learning curve.
    curve = train(trainer="q_placement", overrides=["trainer.games=100"], archive=root, progress=False)
    print(curve.title, curve)
    curve
    return (curve,)


@app.cell
def _(build_policy, rebuild_policy, root, tournament):
    # A policy from the games in the archive. Learned again from the same games, it is the same to the last bit.
    condition = f"run_id = '{tournament.run_id}' AND winner >= 0"
    policy = build_policy("gift", name="gifts", where=condition, archive=root)
    again = rebuild_policy("gifts", root)
    print(policy, again)
    return again, policy


@app.cell
def _(folder, root, sweep):
    # A sequence lists the values of a key, and every combination is a job; of a key with a dot a text does.
    swept = sweep(
        *("mcts", "semi_random"),
        seed=range(1, 3),
        games=10,
        archive=root,
        overrides=["a.iterations=2,8", f"hydra.sweep.dir={folder / 'multirun'}"],
        progress=False,
    )
    print(swept)
    swept
    return (swept,)


@app.cell
def _(folder, ratings):
    # The ending of a file is its format: csv, json, parquet, html, md, txt, and svg where there is a picture.
    written = [ratings.write(folder / f"ratings.{ending}") for ending in ("csv", "parquet", "svg")]
    print(*(path.name for path in written))
    return (written,)


@app.cell
def _(swept):
    # pandas needs pyarrow too: python -m pip install pandas pyarrow
    import pandas as pd

    table: pd.DataFrame = swept.to_pandas()
    print(table.groupby("agent_a")["value"].mean())
    return (table,)


if __name__ == "__main__":
    app.run()
