//! Work on a list of parts: on a stream, and on plain vectors.

use cuda_rt::{DeviceSlice, Grid1, Layout3, PinnedSlice, Result, Stream, StreamTag};
use device_kernels::{add, process, saxpy, scale};

use crate::counts::Kind;
use crate::plan::{Kernel, Way, Work};

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
    /// Rows of the source, and rows of the destination, in one plane or two; of two parts, or of a
    /// part and pinned memory.
    Rows {
        way: Way,
        from: usize,
        to: usize,
        rows: [Layout3; 2],
    },
    /// Pinned memory that a kernel or a copy reaches in place. `Within` reads its first half and
    /// writes its second half.
    Mapped {
        way: Way,
        kernel: Kernel,
        part: usize,
        len: usize,
    },
    FillMapped {
        start: usize,
        end: usize,
        value: f32,
    },
    /// A function of the host copies `half` elements of pinned memory to the next `half` elements,
    /// or back.
    HostFunction {
        half: usize,
        back: bool,
    },
}

impl Op {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Fill { .. } => Kind::Fill,
            Self::Kernel { .. } => Kind::Kernel,
            Self::Add { .. } => Kind::Add,
            Self::Upload { .. } => Kind::Upload,
            Self::Download { .. } => Kind::Download,
            Self::Rows { way, rows, .. } => match (way, rows[0].depth) {
                (Way::Within, 1) => Kind::CopyRows,
                (Way::FromHost, 1) => Kind::UploadRows,
                (Way::ToHost, 1) => Kind::DownloadRows,
                (Way::Within, _) => Kind::CopyPlanes,
                (Way::FromHost, _) => Kind::UploadPlanes,
                (Way::ToHost, _) => Kind::DownloadPlanes,
            },
            Self::Mapped {
                way: Way::FromHost, ..
            } => Kind::ReadMapped,
            Self::Mapped { .. } => Kind::WriteMapped,
            Self::FillMapped { .. } => Kind::FillMapped,
            Self::HostFunction { .. } => Kind::HostFunction,
        }
    }

    /// The kind of the work inside a graph, if it is counted there.
    pub(crate) fn kind_in_graph(self) -> Option<Kind> {
        match self {
            Self::Rows { rows, .. } if rows[0].depth > 1 => Some(Kind::PlanesInGraph),
            Self::Rows { .. } => Some(Kind::RowsInGraph),
            Self::Mapped { .. } | Self::FillMapped { .. } => Some(Kind::MappedInGraph),
            Self::HostFunction { .. } => Some(Kind::HostFunctionInGraph),
            _ => None,
        }
    }

    /// Whether the work reads or writes the part with this number.
    pub(crate) fn uses(self, number: usize) -> bool {
        match self {
            Self::Fill { to, .. } | Self::Upload { to, .. } => to == number,
            Self::Download { from, .. } => from == number,
            Self::Kernel { from, to, .. } => from == number || to == number,
            Self::Add { left, right, to, .. } => [left, right, to].contains(&number),
            Self::Rows { way, from, to, .. } => {
                (way != Way::FromHost && from == number) || (way != Way::ToHost && to == number)
            }
            Self::Mapped { way, part, .. } => way != Way::Within && part == number,
            Self::FillMapped { .. } | Self::HostFunction { .. } => false,
        }
    }
}

/// Some rows of memory with `len` elements; `None` if they do not fit.
fn rows(len: usize, [width, height, depth]: [usize; 3], gap: u8, offset: u8) -> Option<Layout3> {
    let stride = width + usize::from(gap) % 3;
    let plane_rows = height + usize::from(gap) / 3 % 2;
    let last_row = (depth - 1) * plane_rows + height - 1;
    let room = len.checked_sub(last_row * stride + width)?;
    let offset = usize::from(offset) % (room + 1);
    let packed = Layout3::packed(width, height, depth);
    Some(packed.with_stride(stride).with_plane_rows(plane_rows).at(offset))
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
        Work::Rows {
            way,
            from,
            to,
            size: [width, height, depth],
            gaps,
            offsets,
        } => {
            let (from, to) = (part(from), part(to));
            let size = [(width, 4), (height, 3), (depth, 2)];
            let size = size.map(|(number, most)| 1 + usize::from(number) % most);
            let lens = match way {
                Way::Within => (from != to).then_some([parts[from], parts[to]])?,
                Way::FromHost => [host?, parts[to]],
                Way::ToHost => [parts[from], host?],
            };
            let rows = [
                rows(lens[0], size, gaps[0], offsets[0])?,
                rows(lens[1], size, gaps[1], offsets[1])?,
            ];
            Op::Rows { way, from, to, rows }
        }
        Work::Mapped {
            way,
            kernel,
            part: number,
        } => {
            let (host, part) = (host?, part(number));
            let len = match way {
                Way::Within => host / 2,
                Way::FromHost | Way::ToHost => host.min(parts[part]),
            };
            Op::Mapped {
                way,
                kernel,
                part,
                len,
            }
        }
        Work::FillMapped { from, upto, value } => {
            let host = host?;
            let place = |eighths: u8| host * usize::from(eighths) / 8;
            let (start, end) = (place(from.min(upto)), place(from.max(upto)));
            let value = f32::from(value);
            Op::FillMapped { start, end, value }
        }
        Work::HostFunction { back } => {
            let half = host? / 2;
            Op::HostFunction { half, back }
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
        Op::Rows {
            way,
            from,
            to,
            rows: [read, written],
        } => match (way, host) {
            (Way::Within, _) => {
                let [from, to] = parts.get_disjoint_mut([from, to]).expect("resolved apart");
                stream.copy_rows(from, read, to, written)
            }
            (Way::FromHost, host) => {
                stream.copy_rows_to_device(host.expect("resolved"), read, parts[to], written)
            }
            (Way::ToHost, host) => {
                stream.copy_rows_to_host(parts[from], read, host.expect("resolved"), written)
            }
        },
        Op::Mapped {
            way,
            kernel,
            part,
            len,
        } => {
            let host = host.expect("resolved");
            match way {
                Way::Within => {
                    let (from, to) = host.split_at_mut(len);
                    let to = stream.mapped_mut(&mut to[..len])?;
                    read(stream, kernel, stream.mapped(from)?, to)
                }
                Way::FromHost => {
                    let from = stream.mapped(&host[..len])?;
                    read(stream, kernel, from, &mut parts[part][..len])
                }
                Way::ToHost => {
                    let to = stream.mapped_mut(&mut host[..len])?;
                    read(stream, kernel, &parts[part][..len], to)
                }
            }
        }
        Op::FillMapped { start, end, value } => {
            let host = host.expect("resolved");
            stream.fill(stream.mapped_mut(&mut host[start..end])?, value)
        }
        Op::HostFunction { half, back } => {
            let (first, second) = host.expect("resolved").split_at_mut(half);
            let (from, to) = if back { (second, first) } else { (first, second) };
            stream.host_fn((&from[..half], &mut to[..half]), |(from, to)| {
                to.copy_from_slice(from)
            })
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
        Op::Rows {
            way,
            from,
            to,
            rows: [read, written],
        } => match (way, host) {
            (Way::Within, _) => {
                let [from, to] = parts.get_disjoint_mut([from, to]).expect("resolved apart");
                apply_rows(read, from, written, to);
            }
            (Way::FromHost, host) => apply_rows(read, host.expect("resolved"), written, parts[to]),
            (Way::ToHost, host) => apply_rows(read, parts[from], written, host.expect("resolved")),
        },
        Op::Mapped {
            way,
            kernel,
            part,
            len,
        } => {
            let host = host.expect("resolved");
            match way {
                Way::Within => {
                    let (from, to) = host.split_at_mut(len);
                    apply_read(kernel, from, &mut to[..len]);
                }
                Way::FromHost => apply_read(kernel, &host[..len], &mut parts[part][..len]),
                Way::ToHost => apply_read(kernel, &parts[part][..len], &mut host[..len]),
            }
        }
        Op::FillMapped { start, end, value } => host.expect("resolved")[start..end].fill(value),
        Op::HostFunction { half, back } => {
            let (first, second) = host.expect("resolved").split_at_mut(half);
            let second = &mut second[..half];
            let (from, to) = if back { (second, first) } else { (first, second) };
            to.copy_from_slice(from);
        }
    }
}

fn apply_rows(read: Layout3, from: &[f32], written: Layout3, to: &mut [f32]) {
    for plane in 0..read.depth {
        for row in 0..read.height {
            let start = |of: Layout3| of.offset + (plane * of.plane_rows + row) * of.stride;
            let (source, target) = (start(read), start(written));
            to[target..target + read.width].copy_from_slice(&from[source..source + read.width]);
        }
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
