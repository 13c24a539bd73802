//! Indices, outputs of a thread's own, chunks, shared memory, and what threads draw and print.

use device_std::prelude::*;
use device_std::{Random, TilePlace};
use half::f16;

/// Where the thread is, in a launch of one dimension.
#[kernel]
pub fn index1(i: Index1, mut output: PerThread<u64>) {
    if let Some(out) = output.get_mut(i) {
        *out = i.get() as u64;
    }
}

/// Where the thread is, in a launch of two dimensions: x, y, and the launch's width.
#[kernel]
pub fn index2(i: Index2, mut output: PerThread<[u32; 3]>) {
    if let Some(out) = output.get_mut(i) {
        *out = [i.x() as u32, i.y() as u32, i.width() as u32];
    }
}

/// Where the thread is, in a launch of three dimensions.
#[kernel]
pub fn index3(i: Index3, mut output: PerThread<[u32; 3]>) {
    if let Some(out) = output.get_mut(i) {
        *out = [i.x() as u32, i.y() as u32, i.z() as u32];
    }
}

/// Each thread reads its element, and writes it.
#[kernel]
pub fn get_and_set(i: Index1, output: PerThread<u32>) {
    if let Some(value) = output.get(i) {
        output.set(i, value.wrapping_mul(3) + 1);
    }
}

/// Each thread writes four rows of its column: 10 · its position, plus the row.
#[kernel(block = (32, 4))]
pub fn columns(i: Index2, output: PerThreadColumn<u32, 4>) {
    for k in 0..4 {
        output.set(i, k, ((i.y() * i.width() + i.x()) * 10 + k) as u32);
    }
}

/// Each thread writes two chunks: 10 · the element's position, plus the chunk.
#[kernel]
pub fn tiles(i: Index2, output: PerThreadTile<u32, 4, 2>) {
    let number = |x: usize, y: usize, k: usize| ((y * i.width() + x) * 10 + k) as u32;
    let chunk = |k| match output.place(i) {
        TilePlace::Row { x, y } => core::array::from_fn(|q| number(x + q, y + 4 * k, k)),
        TilePlace::Column { x, y } => core::array::from_fn(|q| number(x, y + 4 * k + q, k)),
    };
    output.set(i, [chunk(0), chunk(1)]);
}

/// The aligned chunks of an input, reversed, between the elements before and after them.
#[kernel]
pub fn aligned_chunks(i: Index1, input: &[u16], output: PerThreadChunk<u16, 8>) {
    let (before, chunks, after) = input.aligned_chunks::<8>();
    let middle = before.len()..before.len() + 8 * chunks.len();
    output.set(
        i,
        core::array::from_fn(|k| {
            let at = 8 * i.get() + k;
            if let Some(value) = before.get(at) {
                *value
            } else if middle.contains(&at) {
                let [chunk, lane] = [(at - middle.start) / 8, (at - middle.start) % 8];
                chunks
                    .get(chunks.len() - 1 - chunk)
                    .map_or(0, |chunk| chunk[lane])
            } else {
                after.get(at - middle.end).copied().unwrap_or(1)
            }
        }),
    );
}

/// Each thread writes three elements of several words at once, and reads those of another thread.
#[kernel(block = 64)]
pub fn strided(mut block: Block, tile: BlockUninit<[u16; 8], 192>, output: PerThread<[u16; 8]>) {
    let tile = tile.init_strided(&mut block, |thread| {
        core::array::from_fn::<_, 3, _>(|k| {
            core::array::from_fn(|q| (thread.index() * 100 + k * 10 + q) as u16)
        })
    });
    let view = tile.view();
    block.threads(|thread| {
        if let Some(index) = thread.index_in_launch() {
            let parts: [[u16; 8]; 3] =
                core::array::from_fn(|k| view.read(thread, k * 64 + 63 - thread.index()));
            output.set(
                index,
                core::array::from_fn(|q| parts[0][q] ^ (parts[1][q] << 1) ^ (parts[2][q] << 2)),
            );
        }
    });
}

macro_rules! chunks {
    ($($name:ident: $type:ident, $count:literal, $fill:expr, |$old:ident, $new:ident| $value:expr;)*) => { $(
        /// Combines the thread's elements with elements of the input, several at once.
        #[kernel]
        pub fn $name(i: Index1, input: &[$type], output: PerThreadChunk<$type, $count>) {
            let read: [$type; $count] = input.chunk_or(i.get(), $fill);
            let had: [$type; $count] = output.get_or(i, $fill);
            output.set(i, core::array::from_fn(|k| {
                let ($old, $new) = (had[k], read[k]);
                $value
            }));
        }
    )* };
}

chunks! {
    chunks_f32x4: f32, 4, 0.5, |old, new| old + new;
    chunks_f32x8: f32, 8, 0.5, |old, new| old + new;
    chunks_f64x2: f64, 2, 0.5, |old, new| old + new;
    chunks_u8x16: u8, 16, 9, |old, new| old ^ new;
    chunks_u16x2: u16, 2, 9, |old, new| old ^ new;
    chunks_u32x2: u32, 2, 9, |old, new| old ^ new;
    chunks_u32x3: u32, 3, 9, |old, new| old ^ new;
    chunks_f16x8: f16, 8, f16::ONE, |old, new| f16::from_bits(old.to_bits() ^ new.to_bits());
}

/// Opens shared memory in every way, and writes results of each block and of each thread.
#[kernel(block = 64)]
pub fn shared_memory(
    mut block: Block,
    tile: BlockUninit<u32, 100>,
    of_warps: BlockUninit<u32, 2>,
    input: &[u32],
    reversed: PerThread<u32>,
    mut sums: PerBlock<u32>,
    mut firsts: PerBlock<u32>,
    mut of_second_warps: PerBlock<u32>,
) {
    // There are more elements than threads, so some threads write two.
    let mut tile = tile.init(&mut block, |thread, at| {
        input
            .get(thread.position() - thread.index() + at % 64)
            .copied()
            .unwrap_or(0)
    });
    // Each thread changes its own element. There are fewer elements than threads.
    let (low, high) = tile.split_at_mut(36);
    block.threads(|thread| {
        if let Some(value) = low.get(thread) {
            low.set(thread, value.wrapping_add(high.slice(thread)[thread.index()]));
        }
    });
    let each = tile.each_mut();
    block.threads(|thread| each.set(thread, each.get(thread).unwrap_or(0).rotate_left(1)));
    let view = tile.view();
    let mut mine = block.map_shared(|thread| view.slice(thread)[63 - thread.index()]);
    block.update(&mut mine, |lane, own| *own = own.wrapping_add(lane.x() as u32));
    block.threads_with(&mut mine, |thread, own| {
        *own ^= 1;
        if let Some(index) = thread.index_in_launch() {
            reversed.set(index, *own);
        }
    });
    let fifth = block.broadcast(&tile, 5);
    tile.write(&mut block, |_, at| at as u32);
    let last = block.broadcast(&tile, 99);
    sums.set(&block, fifth.wrapping_add(last));
    firsts.set_from_first(&block, &mine);
    let of_warps = of_warps.init_per_warp(&mut block, |thread| mine.get(thread));
    let second = block.broadcast(&of_warps, 1);
    of_second_warps.set(&block, second);
}

/// An image read beyond its edges.
#[kernel]
pub fn clamped(i: Index2, input: &[u32], mut output: PerThread<u32>, width: u32, height: u32) {
    let image = Image::new(input, width, height);
    if let Some(out) = output.get_mut(i) {
        *out = image.clamped(i.x() as i32 - 3, i.y() as i32 - 3);
    }
}

/// Eight words of the thread's own stream, drawn singly, in pairs and as a block.
#[kernel]
pub fn random_bits(i: Index1, output: PerThreadChunk<u32, 8>, seed: u64) {
    let mut random = Random::new(seed, i.get() as u64);
    let (first, second) = (random.bits(), random.bits64());
    let [a, b, c, d] = random.block();
    output.set(
        i,
        [
            first,
            second as u32,
            (second >> 32) as u32,
            a,
            b,
            c,
            d,
            random.bits(),
        ],
    );
}

/// Uniform numbers in single precision.
#[kernel]
pub fn random_uniform(i: Index1, output: PerThreadChunk<f32, 4>, seed: u64) {
    let mut random = Random::new(seed, i.get() as u64);
    output.set(i, core::array::from_fn(|_| random.uniform()));
}

/// Uniform numbers in double precision.
#[kernel]
pub fn random_uniform64(i: Index1, output: PerThreadChunk<f64, 2>, seed: u64) {
    let mut random = Random::at(seed, i.get() as u64, 1 << 40);
    output.set(i, core::array::from_fn(|_| random.uniform64()));
}

/// A pair of normal numbers, and a single one.
#[kernel]
pub fn random_normal(i: Index1, output: PerThreadChunk<f32, 3>, seed: u64) {
    let mut random = Random::new(seed, i.get() as u64);
    let [first, second] = random.normals();
    output.set(i, [first, second, random.normal()]);
}

/// Prints numbers of all kinds, with different numbers of arguments.
#[kernel]
pub fn print(i: Index1, values: &[f32], mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        device_std::print!(
            "<{}: {} {} {} 100%>\n",
            i.get(),
            values[i.get()],
            -(i.get() as i32),
            i.get().is_multiple_of(2)
        );
        device_std::print!("<{{{}}}>\n", u64::MAX - i.get() as u64);
        device_std::print!("<nothing>\n");
        *out = 1;
    }
}
