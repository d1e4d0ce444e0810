//! Stands for the library rand in yotaroy.rs, with numbers that follow from the seed of a position (xorshift).
use std::cell::Cell;

thread_local!(static STATE: Cell<usize> = const { Cell::new(1) });
pub struct ThreadRng;

pub fn set_seed(seed: usize) {
    STATE.with(|state| state.set(seed.max(1)));
}

pub fn thread_rng() -> ThreadRng {
    ThreadRng
}

pub trait Rng {
    fn gen<T: From<usize>>(&mut self) -> T {
        let mut x = STATE.with(Cell::get);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        STATE.with(|state| state.set(x));
        T::from(x)
    }
}

impl Rng for ThreadRng {}
