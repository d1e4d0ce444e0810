-- The macros of questions: docs/sql.md has an example of each, analytics/sql/expressions.py has them for Polars.
-- Names that begin with _ are parts of the others.

-- Cells and pieces. What is no cell or piece is NULL.

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

-- Positions, by the columns occupied and board of the view positions: data/README.md says what the bits of board are.

-- The texts of two neighbouring cells: bits 0 and 1 say which of them hold a piece, then come two bits of each lane.
-- One look-up for two cells takes a third of the time of making each piece from its bits.
CREATE MACRO _two_cells() AS
    string_split(
        '.. 0. .0 00 .. 1. .1 10 .. 0. .0 01 .. 1. .1 11 .. 2. .2 20 .. 3. .3 30 .. 2. .2 21 .. 3. .3 31 ' ||
        '.. 0. .0 02 .. 1. .1 12 .. 0. .0 03 .. 1. .1 13 .. 2. .2 22 .. 3. .3 32 .. 2. .2 23 .. 3. .3 33 ' ||
        '.. 4. .4 40 .. 5. .5 50 .. 4. .4 41 .. 5. .5 51 .. 6. .6 60 .. 7. .7 70 .. 6. .6 61 .. 7. .7 71 ' ||
        '.. 4. .4 42 .. 5. .5 52 .. 4. .4 43 .. 5. .5 53 .. 6. .6 62 .. 7. .7 72 .. 6. .6 63 .. 7. .7 73 ' ||
        '.. 0. .0 04 .. 1. .1 14 .. 0. .0 05 .. 1. .1 15 .. 2. .2 24 .. 3. .3 34 .. 2. .2 25 .. 3. .3 35 ' ||
        '.. 0. .0 06 .. 1. .1 16 .. 0. .0 07 .. 1. .1 17 .. 2. .2 26 .. 3. .3 36 .. 2. .2 27 .. 3. .3 37 ' ||
        '.. 4. .4 44 .. 5. .5 54 .. 4. .4 45 .. 5. .5 55 .. 6. .6 64 .. 7. .7 74 .. 6. .6 65 .. 7. .7 75 ' ||
        '.. 4. .4 46 .. 5. .5 56 .. 4. .4 47 .. 5. .5 57 .. 6. .6 66 .. 7. .7 76 .. 6. .6 67 .. 7. .7 77 ' ||
        '.. 8. .8 80 .. 9. .9 90 .. 8. .8 81 .. 9. .9 91 .. A. .A A0 .. B. .B B0 .. A. .A A1 .. B. .B B1 ' ||
        '.. 8. .8 82 .. 9. .9 92 .. 8. .8 83 .. 9. .9 93 .. A. .A A2 .. B. .B B2 .. A. .A A3 .. B. .B B3 ' ||
        '.. C. .C C0 .. D. .D D0 .. C. .C C1 .. D. .D D1 .. E. .E E0 .. F. .F F0 .. E. .E E1 .. F. .F F1 ' ||
        '.. C. .C C2 .. D. .D D2 .. C. .C C3 .. D. .D D3 .. E. .E E2 .. F. .F F2 .. E. .E E3 .. F. .F F3 ' ||
        '.. 8. .8 84 .. 9. .9 94 .. 8. .8 85 .. 9. .9 95 .. A. .A A4 .. B. .B B4 .. A. .A A5 .. B. .B B5 ' ||
        '.. 8. .8 86 .. 9. .9 96 .. 8. .8 87 .. 9. .9 97 .. A. .A A6 .. B. .B B6 .. A. .A A7 .. B. .B B7 ' ||
        '.. C. .C C4 .. D. .D D4 .. C. .C C5 .. D. .D D5 .. E. .E E4 .. F. .F F4 .. E. .E E5 .. F. .F F5 ' ||
        '.. C. .C C6 .. D. .D D6 .. C. .C C7 .. D. .D D7 .. E. .E E6 .. F. .F F6 .. E. .E E7 .. F. .F F7 ' ||
        '.. 0. .0 08 .. 1. .1 18 .. 0. .0 09 .. 1. .1 19 .. 2. .2 28 .. 3. .3 38 .. 2. .2 29 .. 3. .3 39 ' ||
        '.. 0. .0 0A .. 1. .1 1A .. 0. .0 0B .. 1. .1 1B .. 2. .2 2A .. 3. .3 3A .. 2. .2 2B .. 3. .3 3B ' ||
        '.. 4. .4 48 .. 5. .5 58 .. 4. .4 49 .. 5. .5 59 .. 6. .6 68 .. 7. .7 78 .. 6. .6 69 .. 7. .7 79 ' ||
        '.. 4. .4 4A .. 5. .5 5A .. 4. .4 4B .. 5. .5 5B .. 6. .6 6A .. 7. .7 7A .. 6. .6 6B .. 7. .7 7B ' ||
        '.. 0. .0 0C .. 1. .1 1C .. 0. .0 0D .. 1. .1 1D .. 2. .2 2C .. 3. .3 3C .. 2. .2 2D .. 3. .3 3D ' ||
        '.. 0. .0 0E .. 1. .1 1E .. 0. .0 0F .. 1. .1 1F .. 2. .2 2E .. 3. .3 3E .. 2. .2 2F .. 3. .3 3F ' ||
        '.. 4. .4 4C .. 5. .5 5C .. 4. .4 4D .. 5. .5 5D .. 6. .6 6C .. 7. .7 7C .. 6. .6 6D .. 7. .7 7D ' ||
        '.. 4. .4 4E .. 5. .5 5E .. 4. .4 4F .. 5. .5 5F .. 6. .6 6E .. 7. .7 7E .. 6. .6 6F .. 7. .7 7F ' ||
        '.. 8. .8 88 .. 9. .9 98 .. 8. .8 89 .. 9. .9 99 .. A. .A A8 .. B. .B B8 .. A. .A A9 .. B. .B B9 ' ||
        '.. 8. .8 8A .. 9. .9 9A .. 8. .8 8B .. 9. .9 9B .. A. .A AA .. B. .B BA .. A. .A AB .. B. .B BB ' ||
        '.. C. .C C8 .. D. .D D8 .. C. .C C9 .. D. .D D9 .. E. .E E8 .. F. .F F8 .. E. .E E9 .. F. .F F9 ' ||
        '.. C. .C CA .. D. .D DA .. C. .C CB .. D. .D DB .. E. .E EA .. F. .F FA .. E. .E EB .. F. .F FB ' ||
        '.. 8. .8 8C .. 9. .9 9C .. 8. .8 8D .. 9. .9 9D .. A. .A AC .. B. .B BC .. A. .A AD .. B. .B BD ' ||
        '.. 8. .8 8E .. 9. .9 9E .. 8. .8 8F .. 9. .9 9F .. A. .A AE .. B. .B BE .. A. .A AF .. B. .B BF ' ||
        '.. C. .C CC .. D. .D DC .. C. .C CD .. D. .D DD .. E. .E EC .. F. .F FC .. E. .E ED .. F. .F FD ' ||
        '.. C. .C CE .. D. .D DE .. C. .C CF .. D. .D DF .. E. .E EE .. F. .F FE .. E. .E EF .. F. .F FF',
        ' ');

CREATE MACRO _two(occupied, lane_0, lane_1, lane_2, lane_3, c) AS
    _two_cells()[
        ((occupied >> c) & 3)
        + ((lane_0 >> bit_count(occupied & ((1 << c) - 1))) & 3) * 4
        + ((lane_1 >> bit_count(occupied & ((1 << c) - 1))) & 3) * 16
        + ((lane_2 >> bit_count(occupied & ((1 << c) - 1))) & 3) * 64
        + ((lane_3 >> bit_count(occupied & ((1 << c) - 1))) & 3) * 256 + 1];

CREATE MACRO _row(occupied, lane_0, lane_1, lane_2, lane_3, c) AS
    _two(occupied, lane_0, lane_1, lane_2, lane_3, c) || _two(occupied, lane_0, lane_1, lane_2, lane_3, c + 2);

CREATE MACRO _rows(occupied, lane_0, lane_1, lane_2, lane_3) AS
    _row(occupied, lane_0, lane_1, lane_2, lane_3, 0) || '/' || _row(occupied, lane_0, lane_1, lane_2, lane_3, 4)
    || '/' || _row(occupied, lane_0, lane_1, lane_2, lane_3, 8) || '/' || _row(occupied, lane_0, lane_1, lane_2, lane_3, 12);

CREATE MACRO board_text(occupied, board) AS
    _rows(
        occupied::INTEGER,
        board::BIGINT >> 4,
        board::BIGINT >> (4 + bit_count(occupied::INTEGER)),
        board::BIGINT >> (4 + 2 * bit_count(occupied::INTEGER)),
        board::BIGINT >> (4 + 3 * bit_count(occupied::INTEGER)));

CREATE MACRO position_text(occupied, board) AS
    board_text(occupied, board) || ' ' || piece_name(board & 15);

-- Wilson's 95 % interval of a share, E. B. Wilson (1927): as analytics/statistics/intervals.py computes it.

CREATE MACRO _wilson_reach(share, n) AS
    1.959963984540054e0 * sqrt(share * (1 - share) / n + 3.8414588206941236e0 / (4e0 * n * n));

CREATE MACRO wilson_low(wins, n) AS
    CASE WHEN wins <= 0 OR n <= 0 THEN 0e0 WHEN wins + n IS NOT NULL THEN greatest(0e0,
        (wins / n + 3.8414588206941236e0 / (2e0 * n) - _wilson_reach(wins / n, n::DOUBLE)) / (1 + 3.8414588206941236e0 / n)) END;

CREATE MACRO wilson_high(wins, n) AS
    CASE WHEN wins >= n OR n <= 0 THEN 1e0 WHEN wins + n IS NOT NULL THEN least(1e0,
        (wins / n + 3.8414588206941236e0 / (2e0 * n) + _wilson_reach(wins / n, n::DOUBLE)) / (1 + 3.8414588206941236e0 / n)) END;

-- The text of the first k plies of a game, which two words hold: four bits a ply, the first ply in bits 28 to 31.

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
