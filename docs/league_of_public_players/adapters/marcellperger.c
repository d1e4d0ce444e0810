// MarcellPerger1/quarto_ai_1: its search values a position to a depth; this plays the first child of the best value.
// cc -O2 -DNDEBUG -I .../src -o marcellperger marcellperger.c .../src/{base_ai,gamestate,minimax_ai,timelib}.c
// ./marcellperger DEPTH, in half-turns: a placement is one, and a gift is another.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base_ai.h"
#include "minimax_ai.h"

static const char digits[] = "0123456789ABCDEF";

static GameState choose(GameState *state, unsigned depth) {
  GameState children[16];
  int count = GS_getMoves(state, children), best = 0, best_value = -2;
  for (int i = 0; i < count && best_value < 1; i++) {
    int value = MMAB_getValue(&children[i], depth - 1, -1, 1, GS_TurnType(state) == 1);
    if (value > best_value) best_value = value, best = i;
  }
  return children[best];
}

static void answer(const char *rows, char hand, unsigned depth) {
  GameState state = GS_empty();
  for (int cell = 0; cell < 16; cell++) {
    char digit = rows[cell + cell / 4];
    if (digit == '.') continue;
    state = GS_givePiece(&state, strchr(digits, digit) - digits);
    state = GS_placePiece(&state, cell);
  }
  char cell[] = "-\0", gift = '-';
  if (hand != '-') {
    state = GS_givePiece(&state, strchr(digits, hand) - digits);
    GameState placed = GS_IsFull(&state) ? GS_placePiece(&state, __builtin_ctzl(state.places_left & 0xffff)) : choose(&state, depth);
    int place = __builtin_ctzl((state.places_left & ~placed.places_left) & 0xffff);
    cell[0] = 'a' + place % 4, cell[1] = '1' + place / 4;
    state = placed;
  }
  if (state.pieces_left & 0xffff && !GS_isWon(&state)) gift = digits[choose(&state, depth).given];
  printf("turn %.2s %c\n", cell, gift);
  fflush(stdout);
}

int main(int count, char **arguments) {
  char line[512], waiting[512][64];
  unsigned positions = 0, depth = count > 1 ? atoi(arguments[1]) : 4;
  while (fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "position", 8) && positions < 512) strncpy(waiting[positions++], line + 9, 63);
    else if (!strncmp(line, "go", 2)) {
      for (unsigned i = 0; i < positions; i++) answer(waiting[i], waiting[i][20], depth);
      positions = 0;
    } else if (!strncmp(line, "quit", 4)) break;
    else puts("ready"), fflush(stdout);
  }
}
