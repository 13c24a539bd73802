//! Has a constant for each name that our macros bind. `tests/hostile/bindings.rs` finds the names,
//! and puts the constants in the place of `CONSTANTS!()`. Names of this crate's own begin with
//! `my_`.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;

use real::{DeviceBuffer, Grid1, Idle, Metadata, PinnedBuffer, Place};
use real_std::{Atomic, Block, BlockUninit, Index1, Index2, Index3, PerBlock, PerThread, PerThreadChunk};

CONSTANTS!();

::real_std::kernel_module!("none.ptx");

::real::streams! {
    pub Compute, priority = High;
    pub Download;
}
::real::devices! { pub Front; }

#[derive(Clone, Copy, real::bytemuck::Pod, real::bytemuck::Zeroable, ::real_std::Element,)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(C)]
pub struct Pair {
    pub my_a: f32,
    pub my_b: u32,
}

#[derive(Clone, Copy, real::bytemuck::Pod, real::bytemuck::Zeroable, ::real::Element,)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(transparent)]
pub struct Row<T: ::real::Element, const N: usize>([T; N]);

#[derive(::real::Bundle)]
pub struct Frame<P: Place = Idle> {
    my_data: DeviceBuffer<u32, P>,
    my_host: PinnedBuffer<u32, P>,
    #[bundle(plain)]
    my_number: u64,
}

#[derive(::real::Bundle)]
pub enum Picture<P: Place = Idle> {
    Data(DeviceBuffer<u32, P>, #[bundle(plain)] u64),
    None,
    Named {
        my_host: PinnedBuffer<u32, P>,
        my_name: Metadata<String, P>,
    },
}

#[::real_std::kernel(handle = Scale)]
pub fn my_scale(my_i: Index1, my_in: &[u32], mut my_out: PerThread<u32>, my_pair: Pair, my_more: bool) {
    if let Some(my_out) = my_out.get_mut(my_i) {
        *my_out = my_in[my_i.get()] * my_pair.my_b + my_more as u32;
        if my_i.get() == 0 {
            ::real_std::print!("{} times {}\n", my_in[0], my_pair.my_b);
        }
    }
}

#[::real_std::kernel(instances = [<u32, 3>, <u32, 4>])]
pub fn my_generic<T: ::real::Element, const N: u32>(my_i: Index1, my_in: &[T], my_counts: Atomic<u32>) -> T {
    my_counts.fetch_add(&my_i, 0, N);
    my_in[my_i.get()]
}

#[::real_std::kernel(block = 64)]
pub fn my_sums(
    mut my_block: Block,
    my_tile: BlockUninit<u32, 64>,
    my_in: &[u32],
    mut my_out: PerBlock<u32>,
) {
    let my_tile = my_tile.init(&mut my_block, |my_thread, my_at| my_in[my_at]);
    let my_tile = my_tile.view();
    let my_first = my_block.map_shared(|my_thread| my_tile.slice(my_thread)[1]);
    my_out.set_from_first(&my_block, &my_first);
}

#[::real_std::kernel]
pub fn my_plane(my_i: Index2, my_in: &[u32], mut my_out: PerThreadChunk<u32, 2>) {}

#[::real_std::kernel]
pub fn my_space(my_i: Index3, mut my_out: PerThread<u32>) {}

pub fn results() {
    let my_config = real::simulator::SimConfig::new().seed(1);
    real::Device::simulated(my_config, |my_gpu| {
        let my_compute = my_gpu.stream::<Compute<_>>().unwrap();
        let my_download = my_gpu.stream::<Download<_>>().unwrap();
        let mut my_in = my_compute.alloc_zeroed::<u32>(64).unwrap();
        my_compute.fill(&mut my_in, 7).unwrap();
        let mut my_data = my_compute.alloc_zeroed::<u32>(64).unwrap();
        let my_pair = Pair { my_a: 0.5, my_b: 3 };
        my_scale(&my_compute, Grid1::covering(64), &my_in, &mut my_data[..32], my_pair, true).unwrap();
        let mut my_counts = my_compute.alloc_zeroed::<u32>(1).unwrap();
        let my_returned = my_compute.alloc_uninit::<u32>(2).unwrap();
        let my_grid = Grid1::covering(2);
        let my_returned =
            my_generic::<u32, 3, _, _>(&my_compute, my_grid, &my_in, &mut my_counts, my_returned).unwrap();
        println!("returned {:?}", my_compute.copy_to_vec(&my_returned).unwrap());
        println!("counts {:?}", my_compute.copy_to_vec(&my_counts).unwrap());
        my_sums(&my_compute, Grid1::covering(64), &my_in, &mut my_data[40..41]).unwrap();
        println!("occupancy {:?}", my_gpu.suggested_block::<Scale>().unwrap());
        let my_frame = Frame {
            my_data,
            my_host: my_compute.adopt(my_gpu.pinned::<u32>(64).unwrap()).unwrap(),
            my_number: 9,
        };
        let mut my_frame = my_download.acquire(my_compute.release(my_frame).unwrap()).unwrap();
        my_download.copy_to_host(&my_frame.my_data, &mut my_frame.my_host).unwrap();
        let my_frame = my_download.release(my_frame).unwrap().synchronize().unwrap();
        println!("frame {:?} {}", &my_frame.my_host[..], my_frame.my_number);
        let my_named = Picture::Named {
            my_host: my_frame.my_host,
            my_name: Metadata::new("picture".to_owned()),
        };
        let my_all = vec![my_named, Picture::None, Picture::Data(my_frame.my_data, 8)];
        let my_pending = my_compute.release(my_compute.adopt(my_all).unwrap()).unwrap();
        for my_picture in my_download.acquire(my_pending).unwrap() {
            match my_picture {
                Picture::Data(_, my_number) => println!("data {my_number}"),
                Picture::None => println!("none"),
                Picture::Named { my_name, .. } => println!("named {}", *my_name),
            }
        }
        let my_constant = real::Constant::new(Frame {
            my_data: my_compute.release(my_in).unwrap().synchronize().unwrap(),
            my_host: my_gpu.pinned::<u32>(1).unwrap(),
            my_number: 9,
        });
        println!("view {}", my_compute.adopt(my_constant).unwrap().view().my_number);
    })
    .unwrap();
    let mut my_sum = 0u32;
    ::real_std::unroll!(for my_k in 0..6u32 {
        if my_k == 4 {
            break;
        }
        my_sum += my_k;
    });
    println!("sum {my_sum}");
}
