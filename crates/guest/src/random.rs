//! Random numbers that depend on the run's seed alone.
//!
//! `Math.random` is fast and can be predicted from what it gave; `crypto` cannot. The V8 worker's program has the same two
//! generators in JavaScript, which is why neither comes from a crate: both sides must give the same numbers.

use toolgate_wire::frame::Seed;

/// Both generators of one run.
#[derive(Debug)]
pub(crate) struct Random {
    math: SplitMix64,
    crypto: ChaCha20,
}

impl Random {
    pub(crate) fn seeded(seed: &Seed) -> Self {
        Random { math: SplitMix64(seed.math), crypto: ChaCha20::keyed(&seed.crypto) }
    }

    /// At least zero, below one; for `Math.random`.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.math.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next bytes for `crypto`.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.crypto.fill(&mut bytes);
        bytes
    }
}

/// Small and fast; its state can be worked out from one output.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const BLOCK: usize = 64;

/// The key stream of ChaCha20 (RFC 8439) with a nonce of zero: a run has its own key.
#[derive(Debug)]
struct ChaCha20 {
    state: [u32; 16],
    block: [u8; BLOCK],
    used: usize,
}

impl ChaCha20 {
    fn keyed(key: &[u8; 32]) -> Self {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        let (words, _) = key.as_chunks();
        state[4..12].iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        ChaCha20 { state, block: [0; BLOCK], used: BLOCK }
    }

    fn fill(&mut self, mut target: &mut [u8]) {
        while !target.is_empty() {
            if self.used == BLOCK {
                self.next_block();
            }
            let count = target.len().min(BLOCK - self.used);
            let (head, rest) = target.split_at_mut(count);
            head.copy_from_slice(&self.block[self.used..self.used + count]);
            self.used += count;
            target = rest;
        }
    }

    fn next_block(&mut self) {
        const DOUBLE_ROUNDS: usize = 10;
        let mut words = self.state;
        for _ in 0..DOUBLE_ROUNDS {
            for column in 0..4 {
                quarter_round(&mut words, column, column + 4, column + 8, column + 12);
            }
            for column in 0..4 {
                quarter_round(&mut words, column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12);
            }
        }
        let (places, _) = self.block.as_chunks_mut();
        for ((place, word), start) in places.iter_mut().zip(words).zip(self.state) {
            *place = word.wrapping_add(start).to_le_bytes();
        }
        self.used = 0;
        // The counter: 256 GB, of which no run gets through a part.
        self.state[12] = self.state[12].wrapping_add(1);
    }
}

fn quarter_round(words: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    for (shift_d, shift_b) in [(16, 12), (8, 7)] {
        words[a] = words[a].wrapping_add(words[b]);
        words[d] = (words[d] ^ words[a]).rotate_left(shift_d);
        words[c] = words[c].wrapping_add(words[d]);
        words[b] = (words[b] ^ words[c]).rotate_left(shift_b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_key_stream_is_that_of_the_standard() {
        // RFC 8439, appendix A.1, vectors 1 and 2: a key and a nonce of zero, counters 0 and 1.
        let mut random = Random::seeded(&Seed::from(0));
        assert_eq!(
            hex(&random.bytes(BLOCK)),
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
             da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        );
        assert_eq!(
            hex(&random.bytes(BLOCK)),
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
             29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
        );
    }

    #[test]
    fn pieces_of_any_length_are_one_stream() {
        let seed = Seed { math: 0, crypto: *b"a key of thirty-two bytes, chosen".first_chunk().expect("enough") };
        let whole = Random::seeded(&seed).bytes(300);
        let mut random = Random::seeded(&seed);
        let pieces: Vec<u8> = [1, 63, 64, 0, 65, 7, 100].iter().flat_map(|count| random.bytes(*count)).collect();
        assert_eq!(pieces, whole);
    }

    #[test]
    fn neither_generator_moves_the_other() {
        let seed = Seed::from(7);
        let (mut both, mut one) = (Random::seeded(&seed), Random::seeded(&seed));
        both.fraction();
        assert_eq!(both.bytes(16), one.bytes(16));
    }
}
