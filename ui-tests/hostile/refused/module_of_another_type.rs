// H42 (E0308): `__kernel!` is given what is no module of ours.
#![forbid(unsafe_code)]
static MODULE: (&str, &str) = ("name", "ptx");
cuda_rt::__kernel! {
    Count, "count", c"count", crate::MODULE, Threads1,
    block = [], slices = [], outputs = [], shared = [], values = [], parameters = [],
}
impl cuda_rt::kernel::Simulate for Count {
    fn call<'k>(_: cuda_rt::kernel::PositionOf<'k, Self>, (): cuda_rt::kernel::ArgumentsOf<'k, Self>) {}
}
