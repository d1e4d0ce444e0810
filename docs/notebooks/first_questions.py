"""First questions to the sample archive: winners, first cells, and lengths of games.

Open it with `marimo edit docs/notebooks/first_questions.py`, or run it with `python`, which prints the answers.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import altair as alt
    import marimo as mo

    import analytics

    return alt, analytics, mo


@app.cell
def _(mo):
    mo.md("""
    # First questions

    The archive `data/sample` holds real games between four quick agents. Every cell below is a question to it;
    change one and see what follows. For an archive of your own, name its folder in the next cell.
    """)


@app.cell
def _(analytics, mo):
    folder = mo.notebook_location().parent.parent / "data" / "sample"
    archive = analytics.open_archive(str(folder))
    print(archive.runs())
    return (archive,)


@app.cell
def _(archive):
    # Who wins? Every question is a method, and takes the same filters: rules, agent, opponent, run, where.
    pairings = archive.crosstable(rules="classic")
    print(pairings)
    pairings
    return (pairings,)


@app.cell
def _(archive):
    # The same question by seat, as the data frame that is behind every answer.
    seats = archive.crosstable(rules="classic", by_seat=True).frame
    print(seats)
    seats
    return (seats,)


@app.cell
def _(alt, archive):
    # How long do games last? Any question can also be put in SQL.
    lengths = archive.sql("SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL")
    print(lengths)
    chart = alt.Chart(lengths).mark_bar().encode(x="plies:O", y="games:Q", color="ending:N")
    chart
    return (lengths,)


@app.cell
def _(archive):
    # Beside exact random play, with pictures.
    archive.lengths(rules="classic")


@app.cell
def _(archive):
    # In Polars each view is a lazy frame. Games begin in corners no more often than elsewhere.
    corners = [0, 3, 12, 15]
    first = archive.scan("plies").filter(ply=0).group_by("cell").len().sort("cell").collect()
    marked = first.with_columns(corner=first["cell"].is_in(corners))
    print(marked)
    marked
    return (first,)


if __name__ == "__main__":
    app.run()
