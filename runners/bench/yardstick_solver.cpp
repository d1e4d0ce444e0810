/* How fast plain C++ solves positions of Quarto: the yardstick that `qarena bench --solver` holds the solver against.
 *
 *   c++ -std=c++17 -O3 -march=native -o yardstick_solver yardstick_solver.cpp && ./yardstick_solver MEGABYTES < positions
 *
 * The same search as quarto/solver/search.py but for the end of the game, which is searched like the rest of it here;
 * classic rules, one thread, no tablebase. Reads positions with a piece in
 * hand, one a line: the four 16-bit lanes as one number, the occupied cells, the available pieces, the hand, all decimal.
 * Prints a line for each: its value and the processor's seconds that it took. The table is kept from one position to the next.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

using std::uint16_t;
using std::uint64_t;

enum { CELLS = 16, TABLE_PIECES = 9, LATE_PIECES = 11, DISTINCT_PIECES = 6, WIN = 0, DRAW = 1 };

struct Board {
    uint64_t lanes;
    int occupied;
};
struct Child {
    Board board;
    int safe, promise;
    uint64_t key;
};

static uint16_t completes[65536], safe_pieces[256], minimal[65536], number[65536];
static uint16_t images[64][2][256];
static int symmetries;
static std::vector<int> attaining[65536];
static uint64_t* table;
static int shift;

static int lowest(int mask) { return __builtin_ctz((unsigned)mask); }
static int image_of(int mask, int symmetry) { return images[symmetry][0][mask & 255] | images[symmetry][1][mask >> 8]; }

static std::vector<int> line_masks() {
    std::vector<int> lines{0x8421, 0x1248};
    for (int i = 0; i < 4; i++) {
        lines.push_back(0xF << 4 * i);
        lines.push_back(0x1111 << i);
    }
    return lines;
}

/* All permutations of the cells that keep the set of lines, cell by cell: the image of each complete line must be a line. */
static void find_symmetries(const std::vector<int>& lines, int* to, int cell, int used) {
    if (cell == CELLS) {
        for (int half = 0; half < 2; half++)
            for (int byte = 0; byte < 256; byte++)
                for (int bit = 0; bit < 8; bit++)
                    if (byte >> bit & 1) images[symmetries][half][byte] |= (uint16_t)(1 << to[8 * half + bit]);
        symmetries++;
        return;
    }
    for (to[cell] = 0; to[cell] < CELLS; to[cell]++) {
        if (used >> to[cell] & 1) continue;
        bool fits = true;
        for (int line : lines) {
            if (line >> cell != 1) continue;
            int image = 0;
            for (int i = 0; i <= cell; i++)
                if (line >> i & 1) image |= 1 << to[i];
            fits &= std::find(lines.begin(), lines.end(), image) != lines.end();
        }
        int image = to[cell];
        if (fits) find_symmetries(lines, to, cell + 1, used | 1 << image);
        to[cell] = image;
    }
}

static void prepare(double megabytes) {
    const std::vector<int> lines = line_masks();
    for (int mask = 0; mask < 65536; mask++)
        for (int line : lines) {
            int missing = line & ~mask;
            if (missing && !(missing & (missing - 1))) completes[mask] |= (uint16_t)missing;
        }
    for (int danger = 0; danger < 256; danger++)
        for (int piece = 0; piece < 16; piece++)
            if (!((piece | (~piece & 15) << 4) & danger)) safe_pieces[danger] |= (uint16_t)(1 << piece);
    int to[CELLS], numbers = 0;
    find_symmetries(lines, to, 0, 0);
    for (int mask = 0; mask < 65536; mask++) {
        int least = 65536;
        for (int s = 0; s < symmetries; s++) least = std::min(least, image_of(mask, s));
        for (int s = 0; s < symmetries; s++)
            if (image_of(mask, s) == least) attaining[mask].push_back(s);
        minimal[mask] = (uint16_t)least;
        number[mask] = least == mask ? (uint16_t)numbers++ : number[least];
    }
    int bits = 10;
    while ((8.0 * (2ull << bits)) <= megabytes * 1048576) bits++;
    table = (uint64_t*)std::calloc(1ull << bits, sizeof *table);
    if (!table) std::exit(1);
    shift = 64 - (bits - 2);
}

static int lane(uint64_t lanes, int attribute) { return (int)(lanes >> 16 * attribute & 65535); }

static Board placed(Board board, int piece, int cell) {
    for (int a = 0; a < 4; a++) board.lanes |= (uint64_t)(piece >> a & 1) << (16 * a + cell);
    board.occupied |= 1 << cell;
    return board;
}

static int safe_on(Board board) {
    int danger = 0, empty = ~board.occupied;
    for (int a = 0; a < 4; a++) {
        int with = lane(board.lanes, a);
        danger |= ((completes[with] & empty) != 0) << a | ((completes[board.occupied & ~with] & empty) != 0) << (4 + a);
    }
    return safe_pieces[danger];
}

/* The exact key of a board before a gift: the number of its least mask, and its lanes squeezed to the occupied cells. */
static uint64_t key_of(Board board) {
    const int mask = minimal[board.occupied];
    uint64_t least = ~0ull;
    for (int s : attaining[board.occupied]) {
        uint16_t sides[4];
        for (int a = 0; a < 4; a++) {
            int moved = image_of(lane(board.lanes, a), s);
            sides[a] = (uint16_t)std::min(moved, moved ^ mask);
        }
        auto order = [&](int i, int j) { if (sides[i] < sides[j]) std::swap(sides[i], sides[j]); };
        order(0, 1), order(2, 3), order(0, 2), order(1, 3), order(1, 2);
        least = std::min(least, (uint64_t)sides[0] | (uint64_t)sides[1] << 16 | (uint64_t)sides[2] << 32 | (uint64_t)sides[3] << 48);
    }
    uint64_t word = 0;
    int place = 0;
    for (int a = 0; a < 4; a++)
        for (int rest = mask; rest; rest &= rest - 1) word |= (least >> (16 * a + lowest(rest)) & 1) << place++;
    return (word << 14 | number[mask]) << 4;
}

static uint64_t* bucket_of(uint64_t key) { return &table[key * 0x9E3779B97F4A7C15ull >> shift << 2]; }

static int recall(uint64_t key, int question) {
    const uint64_t* bucket = bucket_of(key);
    for (int i = 0; i < 4; i++) {
        uint64_t proof = bucket[i] ^ key;
        if (proof >= 16) continue;
        if (question == WIN) return proof & 1 ? (int)(proof >> 1 & 1) : (proof & 12) == 4 ? 0 : -1;
        return proof & 4 ? (int)(proof >> 3 & 1) : (proof & 3) == 3 ? 1 : -1;
    }
    return -1;
}

static void remember(uint64_t key, int question, int answer) {
    uint64_t *bucket = bucket_of(key), note = (uint64_t)(1 + 2 * answer) << 2 * question;
    int place = (int)(key >> 4 & 3);
    for (int i = 0; i < 4; i++) {
        if ((bucket[i] ^ key) < 16) {
            bucket[i] |= note;
            return;
        }
        if (!bucket[i]) place = i;
    }
    bucket[place] = key | note;
}

static int replies(Board board, int available, int gift) {
    int count = 0, rest = available & ~(1 << gift);
    for (int empty = ~board.occupied & 65535; empty; empty &= empty - 1)
        count += __builtin_popcount((unsigned)(rest & safe_on(placed(board, gift, lowest(empty)))));
    return count;
}

static int fewest_replies(Board board, int available, int gifts) {
    int least = 1 << 30;
    for (; gifts; gifts &= gifts - 1) least = std::min(least, replies(board, available, lowest(gifts)) << 8 | lowest(gifts));
    return least;
}

static int can_place_late(Board board, int available, int hand, int question) {
    if (!available) return question == DRAW;
    const int left = __builtin_popcount((unsigned)available);
    for (int empty = ~board.occupied & 65535; empty; empty &= empty - 1) {
        Board child = placed(board, hand, lowest(empty));
        int safe = available & safe_on(child);
        if (safe && (left == 1 || (left == 2 && question == DRAW))) return question == DRAW;
        for (; safe; safe &= safe - 1)
            if (!can_place_late(child, available & ~(1 << lowest(safe)), lowest(safe), 1 - question)) return 1;
    }
    return 0;
}

/* Whether the player who holds `hand`, which finishes no line at once, can win or at least draw. */
static int can_place(Board board, int available, int hand, int question) {
    const int pieces = __builtin_popcount((unsigned)board.occupied) + 1;
    if (pieces > LATE_PIECES) return can_place_late(board, available, hand, question);
    Child children[CELLS];
    int count = 0;
    for (int empty = ~board.occupied & 65535; empty; empty &= empty - 1) {
        Child child{placed(board, hand, lowest(empty)), 0, 0, 0};
        child.safe = available & safe_on(child.board);
        if (!child.safe) continue;
        child.promise = __builtin_popcount((unsigned)child.safe);
        if (pieces <= TABLE_PIECES) {
            child.key = key_of(child.board);
            int known = recall(child.key, question);
            bool repeated = false;
            for (int i = 0; pieces <= DISTINCT_PIECES && i < count; i++) repeated |= children[i].key == child.key;
            if (known == 1) return 1;
            if (known == 0 || repeated) continue;
            child.promise = fewest_replies(child.board, available, child.safe) >> 8;
        }
        children[count++] = child;
    }
    for (int i = 0; i < count; i++) {
        std::swap(children[i], *std::min_element(children + i, children + count, [](const Child& a, const Child& b) {
            return a.promise < b.promise;
        }));
        const Child& child = children[i];
        int answer = i && pieces <= TABLE_PIECES ? recall(child.key, question) : -1;
        if (answer < 0) {
            answer = 0;
            for (int gifts = child.safe; gifts && !answer;) {
                int gift = pieces <= TABLE_PIECES ? fewest_replies(child.board, available, gifts) & 255 : lowest(gifts);
                gifts &= ~(1 << gift);
                answer = !can_place(child.board, available & ~(1 << gift), gift, 1 - question);
            }
            if (pieces <= TABLE_PIECES) remember(child.key, question, answer);
        }
        if (answer) return 1;
    }
    return 0;
}

int main(int count, char** words) {
    prepare(count > 1 ? std::atof(words[1]) : 128);
    unsigned long long lanes;
    int occupied, available, hand;
    while (std::scanf("%llu %d %d %d", &lanes, &occupied, &available, &hand) == 4) {
        std::clock_t started = std::clock();
        Board board{lanes, occupied};
        int value = 1;
        if (safe_on(board) >> hand & 1)
            value = can_place(board, available, hand, WIN) ? 1 : can_place(board, available, hand, DRAW) - 1;
        std::printf("%d %.6f\n", value, (double)(std::clock() - started) / CLOCKS_PER_SEC);
    }
}
