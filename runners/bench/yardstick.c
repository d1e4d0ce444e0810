/* How fast plain C plays random games of Quarto: the yardstick that `qarena bench` holds the engine against.
 *
 *   cc -O3 -march=native -pthread -o yardstick yardstick.c && ./yardstick GAMES THREADS RUN
 *
 * RUN is a run's word. The games are those of pairing 0 of a run of `random` against itself with this word: all random
 * words are those of quarto/rng.py. Unlike the engine, this program does not keep the games, but only counts results.
 *
 * One game after the other, classic rules. Pieces and cells left are lists from which a random entry is taken. Each line
 * keeps the AND of its feature bytes and how many cells are filled: it is finished when the fourth leaves a bit standing.
 * Prints one line: seconds, games won by the first placer, games won by the second, draws, plies.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CELLS = 16, LINES = 10, MAX_THREADS = 256 };

typedef struct {
    uint64_t run, first_game, games;
    uint64_t results[3]; /* first placer, second placer, draw */
    uint64_t plies;
} Share;

static uint8_t lines_through[CELLS][3], line_count[CELLS];

static void add_line(int line, int start, int step) {
    for (int i = 0; i < 4; i++) {
        int cell = start + i * step;
        lines_through[cell][line_count[cell]++] = (uint8_t)line;
    }
}

static void make_lines(void) {
    for (int i = 0; i < 4; i++) {
        add_line(i, 4 * i, 1);
        add_line(4 + i, i, 4);
    }
    add_line(8, 0, 5);
    add_line(9, 3, 3);
}

static const uint64_t GAMMA = 0x9E3779B97F4A7C15u;

static uint64_t mix(uint64_t word) { /* SplitMix64 */
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

/* The random stream of a game: the seed of turn 0. Seeds of consecutive turns differ by GAMMA << 40. */
static uint64_t stream(uint64_t run, uint64_t pair, uint64_t game) {
    uint64_t word = mix(run + GAMMA);
    word = mix(word ^ (pair * GAMMA + 1));
    return mix(word + (game + 1) * GAMMA);
}

/* Take entry `index` out of a list of sixteen nibbles, closing the gap. */
static unsigned take(uint64_t *list, unsigned index) {
    unsigned shift = 4 * index, entry = (unsigned)(*list >> shift) & 15;
    uint64_t below = ((uint64_t)1 << shift) - 1;
    *list = (*list & below) | ((*list >> 4) & ~below);
    return entry;
}

static void play_game(uint64_t game, Share *share) {
    uint64_t seed = stream(share->run, game >> 1, game & 1), pieces = 0xFEDCBA9876543210u, cells = pieces;
    uint8_t shared[LINES], filled[LINES];
    for (int line = 0; line < LINES; line++) {
        shared[line] = 0xFF;
        filled[line] = 0;
    }
    unsigned piece = take(&pieces, (unsigned)(((mix(seed) & 0xFFFFFFFFu) * CELLS) >> 32));
    for (unsigned ply = 0; ply < CELLS; ply++) {
        uint64_t word = mix(seed += GAMMA << 40);
        unsigned left = CELLS - ply;
        unsigned cell = take(&cells, (unsigned)(((word >> 32) * left) >> 32));
        uint8_t features = (uint8_t)(piece | (~piece & 15) << 4);
        int won = 0;
        for (int i = 0; i < line_count[cell]; i++) {
            unsigned line = lines_through[cell][i];
            shared[line] &= features;
            won |= ++filled[line] == 4 && shared[line];
        }
        if (won) {
            share->results[ply & 1]++;
            share->plies += ply + 1;
            return;
        }
        if (left > 1) piece = take(&pieces, (unsigned)(((word & 0xFFFFFFFFu) * (left - 1)) >> 32));
    }
    share->results[2]++;
    share->plies += CELLS;
}

static void *play_share(void *argument) {
    Share own = *(Share *)argument; /* on this thread's stack: neighbours would share a cache line */
    for (uint64_t i = 0; i < own.games; i++) play_game(own.first_game + i, &own);
    *(Share *)argument = own;
    return NULL;
}

int main(int count, char **arguments) {
    uint64_t games = count > 1 ? strtoull(arguments[1], NULL, 10) : 10000000;
    int threads = count > 2 ? atoi(arguments[2]) : 2;
    uint64_t run = count > 3 ? strtoull(arguments[3], NULL, 10) : 0;
    if (games == 0 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: %s GAMES THREADS (1 to %d) RUN\n", arguments[0], MAX_THREADS);
        return 2;
    }
    Share shares[MAX_THREADS] = {0};
    pthread_t handles[MAX_THREADS];
    struct timespec start, end;
    make_lines();
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < threads; i++) {
        shares[i].run = run;
        shares[i].first_game = games * (uint64_t)i / (uint64_t)threads;
        shares[i].games = games * (uint64_t)(i + 1) / (uint64_t)threads - shares[i].first_game;
        if (pthread_create(&handles[i], NULL, play_share, &shares[i])) return 1;
    }
    uint64_t results[3] = {0}, plies = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        for (int k = 0; k < 3; k++) results[k] += shares[i].results[k];
        plies += shares[i].plies;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    printf("%.6f %llu %llu %llu %llu\n", seconds, (unsigned long long)results[0], (unsigned long long)results[1],
           (unsigned long long)results[2], (unsigned long long)plies);
    return 0;
}
