-- The macros of positions' texts. They are created when a question names one or reads the view positions, because
-- DuckDB takes 10 ms to read each of the two. docs/sql.md has an example of each. Names with _ are parts of other macros.

-- Positions, by the columns occupied and board of the view positions; data/README.md defines the bits of board.

-- The texts of two neighbouring cells: bits 0 and 1 say which of them hold a piece, then come two bits of each lane.
-- One look-up for two cells takes a third of the time of building the text of each piece from its bits.
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

CREATE MACRO _rules_text(rules) AS CASE rules WHEN 'classic' THEN '' ELSE ' ' || rules END;

CREATE MACRO position_text(occupied, board, rules := 'classic') AS
    board_text(occupied, board) || ' '
    || CASE rules WHEN 'own_piece' THEN '-' ELSE piece_name(board & 15) END || _rules_text(rules);

CREATE OR REPLACE VIEW positions AS
    SELECT run_id, ply, rules,
           board_text(occupied, board) || ' ' || CASE WHEN mover_chooses THEN '-' ELSE piece_name(board & 15) END
               || _rules_text(rules) AS position,
           occupied::INTEGER AS occupied, board, pairing,
           CASE second WHEN 0 THEN first_agent ELSE second_agent END AS agent,
           CASE second WHEN 0 THEN second_agent ELSE first_agent END AS opponent,
           cell, nullif(piece, -1) AS piece,
           CASE imposed WHEN 0 THEN 'nothing' WHEN 1 THEN 'placement' ELSE 'turn' END AS imposed,
           games, wins, draws, games - wins - draws AS losses, pairing::BIGINT << 32 | sample AS sample_game
    FROM _positions JOIN _pairings USING (run_id, pairing);
