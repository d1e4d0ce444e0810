-- Which first ply has the best results? Results of the seat that places first, by the piece given and the cell chosen.
-- One row a piece and cell, best mean outcome (1 won, 0 drew, -1 lost) first. Reads: plies, of which only the row groups
-- that hold first plies. Imposed openings count like chosen ones.
SELECT
    piece,
    chr(ord('a') + cell % 4) || (cell // 4 + 1) AS cell,
    games,
    total / games AS mean_outcome,
    wins / games AS win_rate
FROM (
    -- Text is made of the 256 groups, not of every row.
    SELECT piece, cell, count(*) AS games, sum(outcome) AS total, sum((outcome = 1)::INTEGER) AS wins
    FROM plies
    WHERE ply = 0
    GROUP BY piece, cell
)
ORDER BY mean_outcome DESC, games DESC, piece, cell
