//! Work on a list of parts: on a stream, and on plain vectors.

use cuda_rt::{DeviceSlice, Grid1, PinnedSlice, Result, Stream, StreamTag};
use device_kernels::{add, process, saxpy, scale};

use crate::plan::{Kernel, Work};

/// Work with its numbers resolved: the operation and its elements. Both sides below follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Fill {
        to: usize,
        start: usize,
        end: usize,
        value: f32,
    },
    Kernel {
        kernel: Kernel,
        from: usize,
        to: usize,
        len: usize,
    },
    Add {
        left: usize,
        right: usize,
        to: usize,
        len: usize,
    },
    Upload {
        to: usize,
        len: usize,
    },
    Download {
        from: usize,
        len: usize,
    },
}

/// The meaning of `work` for parts of these lengths; `None` if it has no meaning.
pub(crate) fn resolve(work: Work, parts: &[usize], host: Option<usize>) -> Option<Op> {
    let part = |number: u8| usize::from(number) % parts.len();
    if parts.is_empty() {
        return None;
    }
    Some(match work {
        Work::Fill {
            to,
            from,
            upto,
            value,
        } => {
            let (to, value) = (part(to), f32::from(value));
            let place = |eighths: u8| parts[to] * usize::from(eighths) / 8;
            let (start, end) = (place(from.min(upto)), place(from.max(upto)));
            Op::Fill {
                to,
                start,
                end,
                value,
            }
        }
        Work::Kernel { kernel, from, to } => {
            let (from, to) = (part(from), part(to));
            let len = parts[from].min(parts[to]);
            (from != to).then_some(Op::Kernel {
                kernel,
                from,
                to,
                len,
            })?
        }
        Work::Add { left, right, to } => {
            let (left, right, to) = (part(left), part(right), part(to));
            let len = parts[left].min(parts[right]).min(parts[to]);
            let apart = left != right && left != to && right != to;
            apart.then_some(Op::Add { left, right, to, len })?
        }
        Work::Upload { to } => {
            let to = part(to);
            Op::Upload {
                to,
                len: parts[to].min(host?),
            }
        }
        Work::Download { from } => {
            let from = part(from);
            Op::Download {
                from,
                len: parts[from].min(host?),
            }
        }
    })
}

/// Gives the work to a stream.
pub(crate) fn enqueue<S: StreamTag>(
    stream: &Stream<S>,
    op: Op,
    parts: &mut [&mut DeviceSlice<f32, S>],
    host: Option<&mut PinnedSlice<f32, S>>,
) -> Result<()> {
    match op {
        Op::Fill {
            to,
            start,
            end,
            value,
        } => stream.fill(&mut parts[to][start..end], value),
        Op::Kernel {
            kernel,
            from,
            to,
            len,
        } => {
            let [from, to] = parts.get_disjoint_mut([from, to]).expect("resolved apart");
            read(stream, kernel, &from[..len], &mut to[..len])
        }
        Op::Add { left, right, to, len } => {
            let [left, right, to] = parts.get_disjoint_mut([left, right, to]).expect("resolved apart");
            add(
                stream,
                Grid1::covering(len),
                &left[..len],
                &right[..len],
                &mut to[..len],
            )
        }
        Op::Upload { to, len } => {
            let host = host.expect("resolved");
            stream.copy_to_device(&host[..len], &mut parts[to][..len])
        }
        Op::Download { from, len } => {
            let host = host.expect("resolved");
            stream.copy_to_host(&parts[from][..len], &mut host[..len])
        }
    }
}

/// Copies `from` into `to`; both have the same length.
pub(crate) fn read<S: StreamTag>(
    stream: &Stream<S>,
    kernel: Kernel,
    from: &DeviceSlice<f32, S>,
    to: &mut DeviceSlice<f32, S>,
) -> Result<()> {
    let grid = Grid1::covering(to.len());
    match kernel {
        Kernel::Copy => stream.copy(from, to),
        Kernel::Scale(factor) => scale(stream, grid, from, to, f32::from(factor)),
        Kernel::Saxpy(a) => saxpy(stream, grid, f32::from(a), from, to),
        Kernel::Process => process(stream, grid, from, to, GAIN, OFFSET),
    }
}

/// For `process`: values that differ at first still differ after sixteen rounds.
const GAIN: f32 = 0.875;
const OFFSET: f32 = 1.0;

/// The same work on plain vectors.
pub(crate) fn apply(op: Op, parts: &mut [&mut Vec<f32>], host: Option<&mut Vec<f32>>) {
    match op {
        Op::Fill {
            to,
            start,
            end,
            value,
        } => parts[to][start..end].fill(value),
        Op::Kernel {
            kernel,
            from,
            to,
            len,
        } => {
            let [from, to] = parts.get_disjoint_mut([from, to]).expect("resolved apart");
            apply_read(kernel, &from[..len], &mut to[..len]);
        }
        Op::Add { left, right, to, len } => {
            let [left, right, to] = parts.get_disjoint_mut([left, right, to]).expect("resolved apart");
            for i in 0..len {
                to[i] = left[i] + right[i];
            }
        }
        Op::Upload { to, len } => parts[to][..len].copy_from_slice(&host.expect("resolved")[..len]),
        Op::Download { from, len } => host.expect("resolved")[..len].copy_from_slice(&parts[from][..len]),
    }
}

pub(crate) fn apply_read(kernel: Kernel, from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = match kernel {
            Kernel::Copy => *from,
            Kernel::Scale(factor) => *from * f32::from(factor),
            Kernel::Saxpy(a) => f32::from(a).mul_add(*from, *to),
            Kernel::Process => (0..16).fold(*from, |value, _| value.mul_add(GAIN, OFFSET)),
        };
    }
}
