// yotaroy/quarto-ai: rustc -O --crate-type rlib -o bin/librand.rlib adapters/rand.rs
// rustc -O --edition 2021 -A warnings --extern rand=bin/librand.rlib -o bin/yotaroy adapters/yotaroy.rs
// bin/yotaroy PLAYOUTS
#[path = "../players/yotaroy+quarto-ai/src/montecarlo.rs"]
mod montecarlo;
#[path = "../players/yotaroy+quarto-ai/src/quarto.rs"]
mod quarto;
#[path = "../players/yotaroy+quarto-ai/src/random.rs"]
mod random;
use quarto::{Piece, State};

fn piece(digit: char) -> Piece {
    let bits = digit.to_digit(16).unwrap();
    let letters = ["BW", "SC", "TS", "FH"].iter().enumerate();
    let text: String = letters.map(|(at, both)| both.as_bytes()[(bits >> (3 - at) & 1) as usize] as char).collect();
    text.parse().ok().unwrap()
}

fn answer(words: &[&str], playouts: usize) -> String {
    rand::set_seed(usize::from_str_radix(words[3], 16).unwrap());
    let mut state = State::new();
    for (cell, digit) in words[1].replace('/', "").chars().enumerate().filter(|(_, digit)| *digit != '.') {
        state.select_piece(piece(digit));
        state.put_piece(cell / 4, cell % 4);
    }
    if words[2] != "-" {
        state.select_piece(piece(words[2].chars().next().unwrap()));
    }
    let (cell, gift) = montecarlo::mcts_action(&state, playouts);
    let cell = cell.map_or("-".to_string(), |(row, column)| format!("{}{}", (b'a' + column as u8) as char, row + 1));
    let gift = gift.map(|piece| piece.get_idx());
    let gift = gift.map_or("-".to_string(), |(a, b, c, d)| format!("{:X}", 8 * a + 4 * b + 2 * c + d));
    format!("turn {cell} {gift}")
}

fn main() {
    let playouts = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut positions = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.split(' ').next().unwrap() {
            "position" => positions.push(line),
            "go" => positions.drain(..).for_each(|text| {
                println!("{}", answer(&text.split(' ').collect::<Vec<_>>(), playouts));
            }),
            "quit" => return,
            _ => println!("ready"),
        }
    }
}
