// stmorse/quarto-game: node stmorse.mjs .../src/ai.js LEVEL [MILLISECONDS]
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , program, level, milliseconds] = process.argv;
const { chooseMove } = await import(pathToFileURL(program));
const cells = [...'1234'].flatMap((row) => [...'abcd'].map((column) => column + row));
const digits = '0123456789ABCDEF';
let positions = [];

function answer([rows, hand, seed]) {
  const board = [...rows.replaceAll('/', '')].map((digit) => digits.indexOf(digit));
  const piece = digits.indexOf(hand);
  const used = board.concat(piece).filter((p) => p >= 0);
  const avail = used.reduce((mask, p) => mask & ~(1 << p), 0xffff);
  const timeMs = milliseconds ? Number(milliseconds) : undefined;
  const { cell, give } = chooseMove({ board, piece, avail, level, seed: parseInt(seed.slice(8), 16), timeMs });
  console.log(`turn ${cell < 0 ? '-' : cells[cell]} ${give < 0 ? '-' : digits[give]}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...words] = line.split(' ');
  if (word === 'quarto' || word === 'rules') console.log('ready');
  else if (word === 'position') positions.push(words);
  else if (word === 'go') positions.splice(0).forEach(answer);
  else if (word === 'quit') process.exit(0);
}
