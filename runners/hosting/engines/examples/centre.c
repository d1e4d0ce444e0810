/* An engine in C without libraries: it wins if it can, else takes a free cell and gives a piece that cannot win at once.

       cc -O2 -o centre runners/hosting/engines/examples/centre.c
       qarena run engine random a.command=./centre games=1000
*/
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST 65536

static const char DIGITS[] = "0123456789ABCDEF";
static int lines[64][4], line_count, mover_chooses, count;
static char positions[MOST][48];
static uint64_t state;

static unsigned below(unsigned n) { /* xorshift: the seed of a position alone decides */
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % n;
}

static int wins(const int *board, int piece, int cell) {
    for (int l = 0; l < line_count; l++) {
        int all = piece, any = piece, others = 0, through = 0;
        for (int i = 0; i < 4; i++) {
            int each = lines[l][i];
            if (each == cell)
                through = 1;
            else if (board[each] >= 0)
                all &= board[each], any |= board[each], others++;
        }
        if (through && others == 3 && (all || any != 15))
            return 1;
    }
    return 0;
}

static int can_win(const int *board, int piece) {
    for (int cell = 0; cell < 16; cell++)
        if (board[cell] < 0 && wins(board, piece, cell))
            return 1;
    return 0;
}

static int gift_for(const int *board, const int *left, int lefts) {
    int safe[16], n = 0;
    for (int i = 0; i < lefts; i++)
        if (!can_win(board, left[i]))
            safe[n++] = left[i];
    return n ? safe[below(n)] : left[below(lefts)];
}

static void turn(const char *text) {
    char rows[24], hand;
    unsigned long long seed;
    int board[16], free_cells[16], left[16], hands[16], frees = 0, lefts = 0, hand_count, used = 0;
    sscanf(text, "%23s %c %llx", rows, &hand, &seed);
    state = seed ? seed : 1;
    for (int cell = 0; cell < 16; cell++) {
        char digit = rows[cell + cell / 4];
        board[cell] = digit == '.' ? -1 : (int)(strchr(DIGITS, digit) - DIGITS);
        if (board[cell] < 0)
            free_cells[frees++] = cell;
        else
            used |= 1 << board[cell];
    }
    for (int piece = 0; piece < 16; piece++)
        if (!(used >> piece & 1) && DIGITS[piece] != hand)
            left[lefts++] = piece;
    if (hand == '-' && !mover_chooses) {
        printf("turn - %c\n", DIGITS[gift_for(board, left, lefts)]);
        return;
    }
    hand_count = hand == '-' ? lefts : 1;
    memcpy(hands, left, sizeof left);
    if (hand != '-')
        hands[0] = (int)(strchr(DIGITS, hand) - DIGITS);
    int piece = hands[below(hand_count)], cell = free_cells[below(frees)];
    for (int i = 0; i < hand_count * frees; i++)
        if (wins(board, hands[i / frees], free_cells[i % frees])) {
            piece = hands[i / frees], cell = free_cells[i % frees];
            break;
        }
    board[cell] = piece;
    char gift = mover_chooses ? DIGITS[piece] : lefts ? DIGITS[gift_for(board, left, lefts)] : '-';
    printf("turn %c%d %c\n", 'a' + cell % 4, cell / 4 + 1, gift);
}

static void read_rules(char *text) {
    line_count = 0;
    strtok(text, " \n"); /* the name */
    mover_chooses = !strcmp(strtok(NULL, " \n"), "mover");
    for (char *word; (word = strtok(NULL, " \n")) && line_count < 64; line_count++)
        for (int i = 0; i < 4; i++)
            lines[line_count][i] = word[2 * i] - 'a' + 4 * (word[2 * i + 1] - '1');
}

int main(void) {
    static char text[1024];
    while (fgets(text, sizeof text, stdin)) {
        if (!strncmp(text, "quarto ", 7))
            puts("name centre\nready");
        else if (!strncmp(text, "rules ", 6))
            read_rules(text + 6), puts("ready");
        else if (!strncmp(text, "position ", 9) && count < MOST)
            snprintf(positions[count++], sizeof positions[0], "%.47s", text + 9);
        else if (!strncmp(text, "go", 2)) {
            for (int i = 0; i < count; i++)
                if (turn(positions[i]), text[2] == ' ') /* each turn has a limit: send it at once */
                    fflush(stdout);
            count = 0;
        } else if (!strncmp(text, "quit", 4))
            return 0;
        fflush(stdout);
    }
    return 0;
}
