// domenukk/quarto_rs: rustc -O --edition 2021 -A warnings -o bin/domenukk adapters/domenukk.rs
#[path = "../players/domenukk+quarto_rs/src/ai.rs"]
mod ai;
#[path = "../players/domenukk+quarto_rs/src/field.rs"]
mod field;
#[path = "../players/domenukk+quarto_rs/src/game.rs"]
mod game;
#[path = "../players/domenukk+quarto_rs/src/piece.rs"]
mod piece;
#[path = "../players/domenukk+quarto_rs/src/rng.rs"]
mod rng;
use game::{Game, Player};

fn answer(words: &[&str]) -> String {
    let seed = u64::from_str_radix(words[3], 16).unwrap();
    let mut game = Game::new(Player::PlayerOne);
    let mut last = None;
    let pieces = words[1].replace('/', "");
    let cells = pieces.chars().enumerate().filter(|(_, digit)| *digit != '.').map(|(cell, digit)| (Some(cell), digit));
    let hand = (words[2] != "-").then(|| (None, words[2].chars().next().unwrap()));
    for (cell, digit) in cells.chain(hand) {
        let piece = piece::Piece::with_props(digit.to_digit(16).unwrap() as u8);
        let _ = match last {
            None => game.initial_move(piece),
            Some(cell) => game.do_move((cell % 4, cell / 4), piece),
        };
        last = cell;
    }
    let before = game.field.empty_spaces();
    let after = ai::SimpleAi::with_seed(game.player(), seed).play_iteratively(&mut game);
    let spaces = after.field.empty_spaces();
    let cell = before.iter().find(|cell| !spaces.contains(cell));
    let cell = cell.map_or("-".to_string(), |(x, y)| format!("{}{}", (b'a' + *x as u8) as char, y + 1));
    let gift = after.next_piece().map_or("-".to_string(), |piece| format!("{:X}", piece.properties & 15));
    format!("turn {cell} {gift}")
}

fn main() {
    let mut positions = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.split(' ').next().unwrap() {
            "position" => positions.push(line),
            "go" => positions.drain(..).for_each(|text| println!("{}", answer(&text.split(' ').collect::<Vec<_>>()))),
            "quit" => return,
            _ => println!("ready"),
        }
    }
}
