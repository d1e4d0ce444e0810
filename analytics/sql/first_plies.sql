-- Which first ply pays? How the seat that places first fares, by the piece it was given and the cell it chose.
-- One row a piece and cell, best mean outcome (1 won, 0 drew, -1 lost) first. Reads: plies, of which only the row groups
-- that hold first plies. Imposed openings count like chosen ones.
SELECT
    piece,
    chr(ord('a') + cell % 4) || (cell // 4 + 1) AS cell,
    count(*) AS games,
    avg(outcome) AS mean_outcome,
    avg((outcome = 1)::INTEGER) AS win_rate
FROM plies
WHERE ply = 0
GROUP BY ALL
ORDER BY mean_outcome DESC, games DESC, piece, cell
