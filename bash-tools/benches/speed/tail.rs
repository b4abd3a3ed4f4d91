//! The tail of long output, beside the minimum work: copying the output.

use std::hint::black_box;
use std::time::Instant;

use bash_tools::tools::{Keep, Part};

const BYTES: usize = 1_000_000_000;
const PIECE: usize = 32 * 1024;
const MAX_CHARS: usize = 12_000;
const ROUNDS: usize = 5;

pub(crate) fn measure() {
    println!("\n1 GB of output in pieces of 32 KiB, on one core, median of {ROUNDS}");
    let ascii = piece("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n");
    let letters = piece("Größe, naïveté, Ελληνικά, 日本語 \u{1f600}\n");
    for (name, piece) in [("lines of ASCII", &ascii), ("lines of many alphabets", &letters)] {
        let (mut tail, mut copy) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            tail.push(rate(piece, &mut Part::new(Keep::Tail, MAX_CHARS), |tail, piece| tail.push(piece)));
            copy.push(rate(piece, &mut vec![0; PIECE], |buffer, piece| {
                buffer[..piece.len()].copy_from_slice(black_box(piece));
            }));
        }
        let (tail, copy) = (median(tail), median(copy));
        println!(
            "  {name:<28} tail {tail:>6.2} GB/s, a bare copy {copy:>6.2} GB/s    (goal: more than 1 GB/s)"
        );
    }
}

fn piece(line: &str) -> Vec<u8> {
    let mut piece = line.repeat(PIECE / line.len() + 1).into_bytes();
    // Cut at arbitrary positions, like real output.
    piece.truncate(PIECE);
    piece
}

fn rate<T>(piece: &[u8], into: &mut T, push: impl Fn(&mut T, &[u8])) -> f64 {
    let began = Instant::now();
    for _ in 0..BYTES / PIECE {
        push(into, black_box(piece));
    }
    black_box(into);
    BYTES as f64 / began.elapsed().as_secs_f64() / 1e9
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
