// What every hostile crate holds: each macro that is exported, and what came of it. Names are given
// in full, from the crates `real`, `real_std` and `rust`, since the crate around it shadows
// whatever it can.

::real_std::kernel_module!("none.ptx");

/// `__module!` by hand.
pub mod by_hand {
    ::real::__module!("none.ptx");
}

::real::streams! {
    /// Computes.
    pub Compute, priority = High;
    pub Download;
}

::real::devices! {
    /// Decodes.
    pub Front;
}

#[derive(
    ::rust::clone::Clone,
    ::rust::marker::Copy,
    ::real::bytemuck::Pod,
    ::real::bytemuck::Zeroable,
    ::real_std::Element,
)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(C)]
pub struct Pair {
    pub a: ::rust::primitive::f32,
    pub r#fn: ::rust::primitive::u32,
}

#[derive(
    ::rust::clone::Clone,
    ::rust::marker::Copy,
    ::real::bytemuck::Pod,
    ::real::bytemuck::Zeroable,
    ::real::Element,
)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(transparent)]
pub struct Row<T: ::real::Element = ::rust::primitive::f32, const N: ::rust::primitive::usize = 3>([T; N]);

#[derive(::rust::clone::Clone, ::rust::marker::Copy, ::real::bytemuck::Pod, ::real::bytemuck::Zeroable)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(C)]
pub struct ElementByHand {
    pub a: ::rust::primitive::f32,
    pub r#fn: ::rust::primitive::u32,
}
::real_std::__element! {
    ElementByHand { a: ::rust::primitive::f32, r#fn: ::rust::primitive::u32, }
}

/// Macros in the place of types, and types that are inferred.
macro_rules! number {
    () => {
        ::rust::primitive::u32
    };
}
#[derive(
    ::rust::clone::Clone,
    ::rust::marker::Copy,
    ::real::bytemuck::Pod,
    ::real::bytemuck::Zeroable,
    ::real_std::Element,
)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(C)]
pub struct ElementOfMacros {
    pub a: ::rust::primitive::f32,
    pub r#fn: number!(),
}
#[derive(::rust::clone::Clone, ::rust::marker::Copy, ::real::bytemuck::Pod, ::real::bytemuck::Zeroable)]
#[bytemuck(crate = "::real::bytemuck")]
#[repr(C)]
pub struct ElementInferred {
    pub a: ::rust::primitive::f32,
    pub r#fn: ::rust::primitive::u32,
}
::real_std::__element! {
    ElementInferred { a: _, r#fn: _, }
}

#[derive(::real::Bundle)]
pub struct Frame<T: ::real::Element = ::rust::primitive::u32, P: ::real::Place = ::real::Idle> {
    data: ::real::DeviceBuffer<T, P>,
    r#type: ::real::PinnedBuffer<T, P>,
    #[bundle(plain)]
    number: ::rust::primitive::u64,
}

#[derive(::real::Bundle)]
pub enum Picture<T: ::real::Element = ::rust::primitive::u32, P: ::real::Place = ::real::Idle> {
    Some(::real::DeviceBuffer<T, P>, #[bundle(plain)] ::rust::primitive::u64),
    None,
    Ok {
        r#type: ::real::PinnedBuffer<T, P>,
        name: ::real::Metadata<::rust::string::String, P>,
    },
    r#Vec(::real::DeviceBuffer<T, P>),
}

pub struct BundleByHand<P>(::real::PinnedBuffer<::rust::primitive::u32, P>);
::real::__bundle! {
    BundleByHand, ViewByHand, RefByHand,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [::real::Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [::real::Idle<<__S as ::real::Place>::Device>,],
    forms = [[BundleByHand, ViewByHand, RefByHand] buffers = [0: part;], plain = [];],
}
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}
pub struct ViewByHand<'v, D, S>(<D as Is<::real::PinnedViewMut<'v, ::rust::primitive::u32, S>>>::Out);
pub struct RefByHand<'v, D, S>(<D as Is<::real::PinnedView<'v, ::rust::primitive::u32, S>>>::Out);

AFTER_DERIVES!();

#[::real_std::kernel(handle = scale)]
pub fn scale(
    r#in: ::real_std::Index1,
    input: &[::rust::primitive::u32],
    mut output: ::real_std::PerThread<::rust::primitive::u32>,
    by: Pair,
    more: ::rust::primitive::bool,
) {
    if let ::rust::option::Option::Some(out) = output.get_mut(r#in) {
        *out = input[r#in.get()] * by.r#fn + more as ::rust::primitive::u32;
        if r#in.get() == 0 {
            ::real_std::print!("{} times {{{}}}\n", input[0], by.r#fn);
        }
    }
}

pub trait Twice {
    type Out: ::real_std::Element;
    fn launch(self) -> Self::Out;
}
impl Twice for Pair {
    type Out = ::rust::primitive::u32;
    fn launch(self) -> ::rust::primitive::u32 {
        2 * self.r#fn
    }
}
impl Twice for ::rust::primitive::u32 {
    type Out = ::rust::primitive::f32;
    fn launch(self) -> ::rust::primitive::f32 {
        self as ::rust::primitive::f32
    }
}
/// Not the parameter of this name.
pub type r#type = Pair;
#[::real_std::kernel(
    instances = [<Pair, { 40 + 2 }>, <::rust::primitive::u32, 7>, <r#type, 1>],
    handle = generic
)]
pub fn generic<r#type, const S: ::rust::primitive::u32>(
    stream: ::real_std::Index1,
    grid: &[r#type],
    output: <r#type as Twice>::Out,
    by: Pair,
) -> [<r#type as Twice>::Out; 2]
where
    r#type: Twice + ::real_std::Element,
{
    let last = if S == 7 && by.r#fn == 3 { output } else { grid[0].launch() };
    [grid[stream.get()].launch(), last]
}

#[::real_std::kernel(block = 64, handle = Occupied)]
pub fn sums(
    mut block: ::real_std::Block,
    tile: ::real_std::BlockUninit<::rust::primitive::u32, 2>,
    input: &[::rust::primitive::u32],
    mut out: ::real_std::PerBlock<::rust::primitive::u32>,
) {
    let values = block.map(|lane| input[lane.position()]);
    let tile = tile.init_per_warp(&mut block, |thread| values.get(thread));
    let tile = tile.view();
    let both = block.map_shared(|thread| tile.slice(thread)[0] + tile.slice(thread)[1]);
    out.set_from_first(&block, &both);
}

pub type Counts<'k> = ::real_std::PerThread<'k, ::rust::primitive::u32>;
::real::__kernel! {
    Count, "count", c"count", crate::__CUDA_RT_MODULE, Threads1,
    block = [32, 1],
    slices = [], outputs = [0: Counts, ::rust::primitive::u32;], shared = [], values = [1: Pair;],
    parameters = [Output 0; Value 1;],
}
impl ::real::kernel::Simulate for Count {
    fn call<'k>(
        i: ::real::kernel::PositionOf<'k, Self>,
        (mut count, (by, ())): ::real::kernel::ArgumentsOf<'k, Self>,
    ) {
        if let ::rust::option::Option::Some(count) = count.get_mut(i) {
            *count += by.r#fn;
        }
    }
}

/// Prints what came of each macro; the same in every crate.
pub fn results() {
    ::rust::println!("module {:?} {:?}", __CUDA_RT_MODULE.name, __CUDA_RT_MODULE.ptx);
    ::rust::println!(
        "by hand {:?} {:?}",
        by_hand::__CUDA_RT_MODULE.name,
        by_hand::__CUDA_RT_MODULE.ptx
    );
    tags();
    layouts();
    kernels();
    bundles();
}

fn tags() {
    use ::real::{NamedDevice, NamedStream, StreamTag};
    ::rust::println!(
        "streams {:?} {:?}",
        <Compute as NamedStream>::NAME,
        <Download as NamedStream>::NAME
    );
    ::rust::println!(
        "priorities {:?} {:?}",
        <Compute as NamedStream>::PRIORITY,
        <Download as NamedStream>::PRIORITY
    );
    let of = [
        ::rust::any::TypeId::of::<Compute>(),
        ::rust::any::TypeId::of::<Download>(),
    ];
    ::rust::println!(
        "keys {} {}",
        <Compute as StreamTag>::key().unwrap() == of[0],
        <Download as StreamTag>::key().unwrap() == of[1]
    );
    ::rust::println!(
        "sizes {} {}",
        ::rust::mem::size_of::<Compute>(),
        ::rust::mem::size_of::<Front>()
    );
    ::rust::println!("device {:?}", <Front as NamedDevice>::NAME);
    let low: ::real::Priority = ::real::__priority!();
    ::rust::println!("by hand {:?} {:?}", low, ::real::__priority!(Normal));
}

fn layouts() {
    use ::real_std::{Element, Scalar};
    ::rust::println!(
        "pair {:#x} {:#x}",
        <Pair as Element>::LAYOUT,
        <Pair as Scalar>::LAYOUT
    );
    ::rust::println!(
        "row {:#x} {:#x}",
        <Row as Element>::LAYOUT,
        <Row<::rust::primitive::u8, 4> as Scalar>::LAYOUT
    );
    let others = [
        <ElementByHand as Element>::LAYOUT,
        <ElementOfMacros as Element>::LAYOUT,
        <ElementInferred as Element>::LAYOUT,
    ];
    ::rust::println!("by hand, of macros, inferred {:#x?}", others);
    ::rust::assert!(others == [<Pair as Element>::LAYOUT; 3]);
}

fn kernels() {
    use ::real::kernel::Signature;
    let kernel = <Count as Signature>::kernel();
    ::rust::println!(
        "kernel {:?} {:?} {:?}",
        kernel.name,
        kernel.symbol,
        kernel.module.name
    );
    ::rust::println!(
        "passes {:?} {:x?} {:?}",
        kernel.parameters,
        kernel.layout,
        <Count as Signature>::BLOCK
    );
    let block: ::rust::option::Option<[::rust::primitive::u32; 2]> = ::real::__block!(8, 4);
    let none: ::rust::option::Option<[::rust::primitive::u32; 2]> = ::real::__block!();
    ::rust::println!("blocks {block:?} {none:?}");
    type Parameters = ::real::__parameters!([] Count Output 0 Value 1);
    let same = ::rust::any::TypeId::of::<Parameters>()
        == ::rust::any::TypeId::of::<<Count as Signature>::Parameters>();
    ::rust::println!("parameters {same}");
}

fn bundles() {
    let config = ::real::simulator::SimConfig::new().seed(1);
    ::real::Device::simulated(config, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        let mut input = compute.alloc_zeroed::<::rust::primitive::u32>(64).unwrap();
        compute.fill(&mut input, 7).unwrap();
        let mut data = compute.alloc_zeroed::<::rust::primitive::u32>(64).unwrap();
        let grid = ::real::Grid1::covering(64);
        scale(
            &compute,
            grid,
            &input,
            &mut data[..32],
            Pair { a: 0.5, r#fn: 3 },
            true,
        )
        .unwrap();
        let pairs = compute.alloc_zeroed::<Pair>(2).unwrap();
        let returned = compute.alloc_uninit::<::rust::primitive::u32>(4).unwrap();
        let by = Pair { a: 0.5, r#fn: 3 };
        let grid = ::real::Grid1::covering(2);
        let returned = generic::<Pair, 42, _, _>(&compute, grid, &pairs, 5, by, returned).unwrap();
        let floats = compute.alloc_uninit::<::rust::primitive::f32>(4).unwrap();
        let grid = ::real::Grid1::covering(2);
        let floats = generic(&compute, grid, &input[..2], 0.25, by, floats).unwrap();
        ::rust::println!(
            "instances {:?} {:?} {:?}",
            compute.copy_to_vec(&returned).unwrap(),
            compute.copy_to_vec(&floats).unwrap(),
            gpu.kernel_attributes::<generic<Pair, 42>>().unwrap()
        );
        let grid = ::real::Grid1::covering(64);
        sums(&compute, grid, &input, &mut data[40..41]).unwrap();
        ::rust::println!(
            "occupancy {:?} {:?}",
            gpu.suggested_block::<scale>().unwrap(),
            gpu.kernel_attributes::<Occupied>().unwrap()
        );
        let grid = ::real::Grid1::covering(64);
        let arguments = (
            ::real::kernel::WriteArg::new(&mut data[48..]),
            (Pair { a: 0.5, r#fn: 5 }, ()),
        );
        ::real::kernel::launch::<Count, _>(&compute, &grid, arguments).unwrap();
        let r#type = compute
            .adopt(gpu.pinned::<::rust::primitive::u32>(64).unwrap())
            .unwrap();
        let by_hand = compute
            .adopt(BundleByHand(gpu.pinned::<::rust::primitive::u32>(64).unwrap()))
            .unwrap();
        let frame = Frame {
            data,
            r#type,
            number: 9,
        };
        let (mut frame, mut by_hand) = download
            .acquire(compute.release((frame, by_hand)).unwrap())
            .unwrap();
        download.copy_to_host(&frame.data, &mut frame.r#type).unwrap();
        download.copy_to_host(&frame.data, &mut by_hand.0).unwrap();
        let (frame, by_hand) = download.release((frame, by_hand)).unwrap().synchronize().unwrap();
        ::rust::println!("frame {:?} {}", &frame.r#type[..], frame.number);
        ::rust::println!("by hand {}", by_hand.0[..] == frame.r#type[..]);
        let picture = Picture::Ok {
            r#type: frame.r#type,
            name: ::real::Metadata::new(::rust::format!("picture")),
        };
        let pictures = ::rust::vec![picture, Picture::None, Picture::Some(frame.data, 8)];
        let pending = compute.release(compute.adopt(pictures).unwrap()).unwrap();
        for picture in download.acquire(pending).unwrap() {
            match picture {
                Picture::Some(data, number) => ::rust::println!("picture {} {number}", ::real::DeviceBuffer::len(&data)),
                Picture::None => ::rust::println!("no picture"),
                Picture::Ok { r#type, name } => ::rust::println!("{} {}", *name, ::real::PinnedBuffer::len(&r#type)),
                Picture::Vec(_) => ::rust::panic!("no such picture was made"),
            }
        }
        let constant = ::real::Constant::new(Frame {
            data: compute.release(input).unwrap().synchronize().unwrap(),
            r#type: gpu.pinned::<::rust::primitive::u32>(1).unwrap(),
            number: 9,
        });
        ::rust::println!("view {}", compute.adopt(constant).unwrap().view().number);
    })
    .unwrap();
}

/// The passes of a loop, written out; `break` and `continue` are the loop's.
pub fn unrolled() {
    let mut sum = 0u32;
    ::real_std::unroll!(for k in 0..6u32 {
        if k == 1 {
            continue;
        }
        if k == 4 {
            break;
        }
        sum += k;
    });
    ::rust::assert_eq!(sum, 5);
}
