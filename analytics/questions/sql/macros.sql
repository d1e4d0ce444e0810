-- The macros of questions: docs/sql.md has an example of each.
-- Names that begin with _ are parts of other macros.

-- Cells and pieces; NULL for a number that is no cell or piece.

CREATE MACRO cell_name(c) AS
    CASE WHEN c BETWEEN 0 AND 15 THEN substr('abcd', (c % 4 + 1)::INTEGER, 1) || substr('1234', (c // 4 + 1)::INTEGER, 1) END;

CREATE MACRO cell_class(c) AS
    CASE WHEN c IN (0, 3, 12, 15) THEN 'corner' WHEN c IN (5, 6, 9, 10) THEN 'centre' WHEN c BETWEEN 0 AND 15 THEN 'edge' END;

CREATE MACRO piece_name(p) AS
    CASE WHEN p BETWEEN 0 AND 15 THEN substr('0123456789ABCDEF', (p + 1)::INTEGER, 1) END;

CREATE MACRO high(p) AS p & 8 <> 0;

CREATE MACRO coloured(p) AS p & 4 <> 0;

CREATE MACRO solid(p) AS p & 2 <> 0;

CREATE MACRO square(p) AS p & 1 <> 0;

CREATE MACRO shared(p, q) AS (4 - bit_count(xor(p, q) & 15))::INTEGER;

-- Wilson's 95 % interval of a share, E. B. Wilson (1927), as analytics/statistics/intervals.py computes it.

CREATE MACRO _wilson_reach(share, n) AS
    1.959963984540054e0 * sqrt(share * (1 - share) / n + 3.8414588206941236e0 / (4e0 * n * n));

CREATE MACRO wilson_low(wins, n) AS
    CASE WHEN wins <= 0 OR n <= 0 THEN 0e0 WHEN wins + n IS NOT NULL THEN greatest(0e0,
        (wins / n + 3.8414588206941236e0 / (2e0 * n) - _wilson_reach(wins / n, n::DOUBLE)) / (1 + 3.8414588206941236e0 / n)) END;

CREATE MACRO wilson_high(wins, n) AS
    CASE WHEN wins >= n OR n <= 0 THEN 1e0 WHEN wins + n IS NOT NULL THEN least(1e0,
        (wins / n + 3.8414588206941236e0 / (2e0 * n) + _wilson_reach(wins / n, n::DOUBLE)) / (1 + 3.8414588206941236e0 / n)) END;

-- Half of the normal 95 % interval of a mean over independent clusters, each a row with the sum and the number of its
-- values (L. Kish, "Survey Sampling", 1965, section 6.3), as analytics/statistics/tally.py computes it.

CREATE MACRO cluster_reach(total, n) AS
    1.959963984540054e0 * sqrt(
        greatest(0e0, sum(1e0 * total * total) - 2 * (sum(total) / sum(n)) * sum(1e0 * total * n)
            + (sum(total) / sum(n)) ** 2 * sum(1e0 * n * n))
        * count(n) / nullif(count(n) - 1, 0)) / sum(n);

-- The text of the first k plies of a game. Two words hold them: four bits a ply, the first ply in bits 28 to 31.

CREATE MACRO _ply_texts() AS
    string_split(
        '0@a1 0@b1 0@c1 0@d1 0@a2 0@b2 0@c2 0@d2 0@a3 0@b3 0@c3 0@d3 0@a4 0@b4 0@c4 0@d4 ' ||
        '1@a1 1@b1 1@c1 1@d1 1@a2 1@b2 1@c2 1@d2 1@a3 1@b3 1@c3 1@d3 1@a4 1@b4 1@c4 1@d4 ' ||
        '2@a1 2@b1 2@c1 2@d1 2@a2 2@b2 2@c2 2@d2 2@a3 2@b3 2@c3 2@d3 2@a4 2@b4 2@c4 2@d4 ' ||
        '3@a1 3@b1 3@c1 3@d1 3@a2 3@b2 3@c2 3@d2 3@a3 3@b3 3@c3 3@d3 3@a4 3@b4 3@c4 3@d4 ' ||
        '4@a1 4@b1 4@c1 4@d1 4@a2 4@b2 4@c2 4@d2 4@a3 4@b3 4@c3 4@d3 4@a4 4@b4 4@c4 4@d4 ' ||
        '5@a1 5@b1 5@c1 5@d1 5@a2 5@b2 5@c2 5@d2 5@a3 5@b3 5@c3 5@d3 5@a4 5@b4 5@c4 5@d4 ' ||
        '6@a1 6@b1 6@c1 6@d1 6@a2 6@b2 6@c2 6@d2 6@a3 6@b3 6@c3 6@d3 6@a4 6@b4 6@c4 6@d4 ' ||
        '7@a1 7@b1 7@c1 7@d1 7@a2 7@b2 7@c2 7@d2 7@a3 7@b3 7@c3 7@d3 7@a4 7@b4 7@c4 7@d4 ' ||
        '8@a1 8@b1 8@c1 8@d1 8@a2 8@b2 8@c2 8@d2 8@a3 8@b3 8@c3 8@d3 8@a4 8@b4 8@c4 8@d4 ' ||
        '9@a1 9@b1 9@c1 9@d1 9@a2 9@b2 9@c2 9@d2 9@a3 9@b3 9@c3 9@d3 9@a4 9@b4 9@c4 9@d4 ' ||
        'A@a1 A@b1 A@c1 A@d1 A@a2 A@b2 A@c2 A@d2 A@a3 A@b3 A@c3 A@d3 A@a4 A@b4 A@c4 A@d4 ' ||
        'B@a1 B@b1 B@c1 B@d1 B@a2 B@b2 B@c2 B@d2 B@a3 B@b3 B@c3 B@d3 B@a4 B@b4 B@c4 B@d4 ' ||
        'C@a1 C@b1 C@c1 C@d1 C@a2 C@b2 C@c2 C@d2 C@a3 C@b3 C@c3 C@d3 C@a4 C@b4 C@c4 C@d4 ' ||
        'D@a1 D@b1 D@c1 D@d1 D@a2 D@b2 D@c2 D@d2 D@a3 D@b3 D@c3 D@d3 D@a4 D@b4 D@c4 D@d4 ' ||
        'E@a1 E@b1 E@c1 E@d1 E@a2 E@b2 E@c2 E@d2 E@a3 E@b3 E@c3 E@d3 E@a4 E@b4 E@c4 E@d4 ' ||
        'F@a1 F@b1 F@c1 F@d1 F@a2 F@b2 F@c2 F@d2 F@a3 F@b3 F@c3 F@d3 F@a4 F@b4 F@c4 F@d4',
        ' ');

CREATE MACRO _ply_text(pieces, cells, ply) AS
    _ply_texts()[((pieces >> (28 - 4 * ply)) & 15) * 16 + ((cells >> (28 - 4 * ply)) & 15) + 1];

CREATE MACRO opening_text(pieces, cells, k) AS
    _ply_text(pieces, cells, 0)
    || CASE WHEN k > 1 THEN ' ' || _ply_text(pieces, cells, 1) ELSE '' END
    || CASE WHEN k > 2 THEN ' ' || _ply_text(pieces, cells, 2) ELSE '' END
    || CASE WHEN k > 3 THEN ' ' || _ply_text(pieces, cells, 3) ELSE '' END
    || CASE WHEN k > 4 THEN ' ' || _ply_text(pieces, cells, 4) ELSE '' END
    || CASE WHEN k > 5 THEN ' ' || _ply_text(pieces, cells, 5) ELSE '' END
    || CASE WHEN k > 6 THEN ' ' || _ply_text(pieces, cells, 6) ELSE '' END
    || CASE WHEN k > 7 THEN ' ' || _ply_text(pieces, cells, 7) ELSE '' END;
