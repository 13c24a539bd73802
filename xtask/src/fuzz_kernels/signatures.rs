//! Random signatures: kernels that copy their other arguments to their outputs. If an argument
//! arrives in the wrong place, the bytes show it.

use super::case::{Argument, Case};
use super::random::Random;

/// The common first part of every file of random signatures.
pub(super) const PRELUDE: &str = "\
use device_std::prelude::*;
use device_std::bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable, Element)]
#[bytemuck(crate = \"device_std::bytemuck\")]
#[repr(transparent)]
pub struct Row<T, const N: usize>(pub [T; N])
where
    T: Copy;
";

const PRIMITIVES: [(&str, usize); 12] = [
    ("u8", 1),
    ("i8", 1),
    ("u16", 2),
    ("i16", 2),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
    ("usize", 8),
    ("isize", 8),
];

/// An element's type: its name in the kernels' crate, and its expected layout.
#[derive(Clone)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) align: usize,
}

/// Makes types, and collects their definitions.
pub(super) struct Types<'a> {
    pub(super) random: &'a mut Random,
    prefix: String,
    pub(super) items: String,
    structs: usize,
}

impl<'a> Types<'a> {
    pub(super) fn new(random: &'a mut Random, prefix: String) -> Self {
        Self {
            random,
            prefix,
            items: String::new(),
            structs: 0,
        }
    }

    pub(super) fn of_size(&mut self, depth: usize, max_align: usize) -> Type {
        loop {
            let ty = self.any(depth, max_align);
            if ty.size > 0 {
                return ty;
            }
        }
    }

    /// A type of any size, zero included.
    fn any(&mut self, depth: usize, max_align: usize) -> Type {
        match self.random.below(if depth == 0 { 1 } else { 6 }) {
            0 | 1 => {
                let (name, size) = self.random.pick(&PRIMITIVES);
                Type {
                    name: name.to_owned(),
                    size,
                    align: size,
                }
            }
            kind @ (2 | 3) => {
                let (inner, count) = (self.any(depth - 1, max_align), self.random.below(6));
                let is_row = kind == 3;
                Type {
                    name: match is_row {
                        true => format!("Row<{}, {count}>", inner.name),
                        false => format!("[{}; {count}]", inner.name),
                    },
                    size: inner.size * count,
                    align: inner.align,
                }
            }
            _ => {
                let fields: Vec<Type> = (0..self.random.within(1, 4))
                    .map(|_| self.any(depth - 1, max_align))
                    .collect();
                let least = fields.iter().map(|field| field.align).max().unwrap_or(1);
                let align = self
                    .random
                    .chance(1, 3)
                    .then(|| self.random.pick(&[2, 4, 8, 16, 32, 64, 128, 256]));
                self.structure(
                    &fields,
                    align.filter(|align| *align > least && *align <= max_align),
                )
            }
        }
    }

    /// A struct of these fields, with more fields in the place of padding.
    pub(super) fn structure(&mut self, fields: &[Type], align: Option<usize>) -> Type {
        let name = format!("{}T{}", self.prefix, self.structs);
        self.structs += 1;
        let (mut size, mut largest, mut text) = (0, align.unwrap_or(1), String::new());
        for (n, field) in fields.iter().enumerate() {
            let gap = size_to(size, field.align);
            if gap > 0 {
                text += &format!("    pub gap{n}: [u8; {gap}],\n");
            }
            text += &format!("    pub field{n}: {},\n", field.name);
            size += gap + field.size;
            largest = largest.max(field.align);
        }
        let gap = size_to(size, largest);
        if gap > 0 {
            text += &format!("    pub rest: [u8; {gap}],\n");
        }
        let align = align.map(|align| format!(", align({align})")).unwrap_or_default();
        self.items += &format!(
            "#[derive(Clone, Copy, Pod, Zeroable, Element)]\n#[bytemuck(crate = \"device_std::bytemuck\")]\n#[repr(C{align})]\n\
             pub struct {name} {{\n{text}}}\n"
        );
        Type {
            name,
            size: size + gap,
            align: largest,
        }
    }

    fn scalar(&mut self) -> Type {
        loop {
            let ty = self.of_size(3, 16);
            if ty.size <= 1024 {
                return ty;
            }
        }
    }
}

fn size_to(size: usize, align: usize) -> usize {
    size.next_multiple_of(align) - size
}

/// A parameter's text, and its argument; shared memory has no argument.
struct Parameter {
    text: String,
    argument: Option<Argument>,
}

/// A signature under construction.
#[derive(Default)]
struct Draft {
    parameters: Vec<Parameter>,
    /// Shared arrays are filled first, then read.
    fills: String,
    reads: String,
    copies: String,
    lens: Vec<(String, usize)>,
}

impl Draft {
    fn input(&mut self, name: &str, ty: &Type, len: usize, bytes: Vec<u8>) {
        self.lens.push((name.to_owned(), len));
        self.parameters.push(Parameter {
            text: format!("{name}: &[{}]", ty.name),
            argument: Some(Argument::Input {
                ty: ty.name.clone(),
                len,
                bytes,
            }),
        });
    }

    fn output(&mut self, name: &str, wrapper: &str, ty: &str, expected: Vec<u8>, size: usize) {
        let len = expected.len() / size;
        self.lens.push((name.to_owned(), len));
        self.parameters.push(Parameter {
            text: format!("mut {name}: {wrapper}"),
            argument: Some(Argument::Output {
                ty: ty.to_owned(),
                len,
                initial: vec![0; expected.len()],
                expected,
            }),
        });
    }
}

/// The signature `number` of the seed.
pub(super) fn signature(seed: u64, number: usize) -> Case {
    let mut random = Random::of_case(!seed, number);
    let (name, is_block) = (format!("signature_{number}"), random.chance(1, 2));
    let threads = random.within(1, 150);
    let mut types = Types::new(&mut random, format!("S{number}"));
    let mut draft = Draft::default();
    let mut shared_bytes = 0;
    for n in 0..types.random.within(1, 6) {
        match types.random.below(if is_block { 6 } else { 5 }) {
            0 | 1 => scalar(&mut types, &mut draft, n, threads),
            2 => slice(&mut types, &mut draft, n, threads),
            3 => chunk(&mut types, &mut draft, n, threads),
            4 => array(&mut types, &mut draft, n, threads),
            _ => shared(&mut types, &mut draft, n, threads, &mut shared_bytes),
        }
    }
    let returned = match types.random.chance(1, 2) {
        true => Some(returned(&mut types, &mut draft, &name, threads, is_block)),
        false => None,
    };
    shuffle(&mut draft.parameters, types.random);

    // The last output holds the lengths of all arguments, its own included.
    let own = threads.max(draft.lens.len() + 1);
    let mut lens: Vec<u64> = draft.lens.iter().map(|(_, len)| *len as u64).collect();
    lens.push(own as u64);
    // Each thread writes one length, so there are at most as many lengths as threads.
    lens.truncate(threads);
    lens.resize(own, 0);
    let expected = lens.iter().flat_map(|len| len.to_le_bytes()).collect();
    draft.output("lens", "PerThread<u64>", "u64", expected, 8);
    let arms: String = draft
        .lens
        .iter()
        .enumerate()
        .map(|(n, (name, _))| format!("{n} => {name}.len() as u64, "))
        .collect();
    let lens = format!("if lens.get(i).is_some() {{ lens.set(i, match i.get() {{ {arms}_ => 0 }}); }}\n");

    let at = types.random.below(draft.parameters.len() + 1);
    let position = if is_block { "mut block: Block" } else { "i: Index1" };
    draft.parameters.insert(
        at,
        Parameter {
            text: position.to_owned(),
            argument: None,
        },
    );
    let parameters: Vec<&str> = draft
        .parameters
        .iter()
        .map(|parameter| parameter.text.as_str())
        .collect();
    let (
        parameters,
        Draft {
            fills, reads, copies, ..
        },
    ) = (parameters.join(", "), &draft);
    let (mut result, mut value) = (String::new(), String::new());
    if let Some(Returned { ty, .. }) = &returned {
        let element = |at: &str| format!("ret.get({at}).copied().unwrap_or(Zeroable::zeroed())\n");
        (result, value) = match is_block {
            true => (
                format!(" -> device_std::Private<{ty}>"),
                format!("block.map(|lane| {})\n", element("lane.position()")),
            ),
            false => (format!(" -> {ty}"), element("i.get()")),
        };
    }
    let (attribute, body) = if is_block {
        let threads = types.random.pick(&[32, 33, 64, 100]);
        let body = format!(
            "{fills}block.threads(|t| {{ if let Some(i) = t.index_in_launch() {{\n{reads}{copies}{lens}}} }});\n{value}"
        );
        (format!("#[kernel(block = {threads})]"), body)
    } else {
        ("#[kernel]".to_owned(), format!("{copies}{lens}{value}"))
    };
    let source = format!(
        "{}{attribute}\npub fn {name}({parameters}){result} {{\n{body}}}\n",
        types.items
    );
    let arguments = draft
        .parameters
        .into_iter()
        .filter_map(|parameter| parameter.argument)
        .chain(returned.map(|returned| returned.argument))
        .collect();
    Case {
        name,
        module: "signatures",
        source,
        grid: vec![threads],
        arguments,
    }
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for n in (1..list.len()).rev() {
        list.swap(n, random.below(n + 1));
    }
}

/// What a kernel returns.
struct Returned {
    ty: String,
    /// The output, which is passed last.
    argument: Argument,
}

/// Adds an input whose elements the threads return. A block returns the elements of its threads,
/// and the output may be shorter than the launch; the threads of other kernels all run.
///
/// An alias names the type, because an array that stands in the signature would be a chunk.
fn returned(
    types: &mut Types<'_>,
    draft: &mut Draft,
    name: &str,
    threads: usize,
    is_block: bool,
) -> Returned {
    let ty = types.of_size(2, 16);
    let alias = format!("Of_{name}");
    types.items += &format!(
        "#[allow(non_camel_case_types)]\npub type {alias} = {};\n",
        ty.name
    );
    let bytes = types.random.bytes(ty.size * threads);
    let len = match is_block {
        true => types.random.within(0, threads),
        false => threads,
    };
    let expected = bytes[..len * ty.size].to_vec();
    draft.input("ret", &ty, threads, bytes);
    Returned {
        argument: Argument::Output {
            ty: ty.name.clone(),
            len,
            initial: vec![0; expected.len()],
            expected,
        },
        ty: alias,
    }
}

/// Adds a scalar, which each thread copies.
fn scalar(types: &mut Types<'_>, draft: &mut Draft, n: usize, threads: usize) {
    if types.random.chance(1, 6) {
        let value = types.random.below(2) as u8;
        let argument = Argument::Scalar {
            ty: "bool".to_owned(),
            bytes: vec![value],
        };
        draft.parameters.push(Parameter {
            text: format!("s{n}: bool"),
            argument: Some(argument),
        });
        draft.output(&format!("o{n}"), "PerThread<u8>", "u8", vec![value; threads], 1);
        draft.copies += &format!("o{n}.set(i, s{n} as u8);\n");
        return;
    }
    let ty = types.scalar();
    let bytes = types.random.bytes(ty.size);
    draft.output(
        &format!("o{n}"),
        &format!("PerThread<{}>", ty.name),
        &ty.name,
        bytes.repeat(threads),
        ty.size,
    );
    let argument = Argument::Scalar {
        ty: ty.name.clone(),
        bytes,
    };
    draft.parameters.push(Parameter {
        text: format!("s{n}: {}", ty.name),
        argument: Some(argument),
    });
    draft.copies += &format!("o{n}.set(i, s{n});\n");
}

/// Adds an array that is passed by value; each thread copies the element at an index that is known
/// only at run time.
fn array(types: &mut Types<'_>, draft: &mut Draft, n: usize, threads: usize) {
    let ty = loop {
        let ty = types.of_size(2, 16);
        if ty.size <= 64 {
            break ty;
        }
    };
    let count = types.random.within(1, 9);
    let bytes = types.random.bytes(ty.size * count);
    let expected = bytes.iter().copied().cycle().take(ty.size * threads).collect();
    draft.output(
        &format!("o{n}"),
        &format!("PerThread<{}>", ty.name),
        &ty.name,
        expected,
        ty.size,
    );
    let name = format!("[{}; {count}]", ty.name);
    draft.parameters.push(Parameter {
        text: format!("s{n}: {name}"),
        argument: Some(Argument::Scalar { ty: name, bytes }),
    });
    draft.copies += &format!("o{n}.set(i, s{n}[i.get() % {count}]);\n");
}

/// Adds a slice; each thread copies one element.
fn slice(types: &mut Types<'_>, draft: &mut Draft, n: usize, threads: usize) {
    let ty = types.of_size(3, 256);
    let len = types.random.within(0, 2 * threads);
    let bytes = types.random.bytes(ty.size * len);
    let copied = len.min(threads);
    let mut expected = bytes[..copied * ty.size].to_vec();
    // The output has one more element, which no thread writes.
    expected.extend(vec![0; ty.size]);
    draft.input(&format!("in{n}"), &ty, len, bytes);
    draft.output(
        &format!("o{n}"),
        &format!("PerThread<{}>", ty.name),
        &ty.name,
        expected,
        ty.size,
    );
    draft.copies += &format!("if i.get() < {copied} {{ o{n}.set(i, in{n}[i.get()]); }}\n");
}

/// Adds a slice; each thread copies several elements at once.
fn chunk(types: &mut Types<'_>, draft: &mut Draft, n: usize, threads: usize) {
    let ty = types.of_size(2, 256);
    let each = types.random.within(1, 5);
    let len = types.random.within(0, each * threads + 3);
    let bytes = types.random.bytes(ty.size * len);
    let copied = len.min(each * threads);
    let mut expected = bytes.clone();
    expected[copied * ty.size..].fill(0);
    draft.input(&format!("in{n}"), &ty, len, bytes);
    draft.output(
        &format!("o{n}"),
        &format!("PerThreadChunk<{}, {each}>", ty.name),
        &ty.name,
        expected,
        ty.size,
    );
    draft.copies += &format!("o{n}.set(i, in{n}.chunk_or::<{each}>(i.get(), Zeroable::zeroed()));\n");
}

/// Adds a slice that goes through shared memory. All arrays are filled before any is read, so
/// arrays that overlap give wrong bytes.
fn shared(types: &mut Types<'_>, draft: &mut Draft, n: usize, threads: usize, bytes_so_far: &mut usize) {
    let (ty, elements) = (types.of_size(2, 16), types.random.within(1, 70));
    let bytes = (ty.size * elements).next_multiple_of(16);
    if *bytes_so_far + bytes > 40 << 10 {
        return;
    }
    *bytes_so_far += bytes;
    let values = types.random.bytes(ty.size * elements);
    let element = |at: usize| values[at * ty.size..(at + 1) * ty.size].to_vec();
    let expected = (0..threads)
        .flat_map(|thread| element(thread * 7 % elements))
        .collect();
    draft.input(&format!("in{n}"), &ty, elements, values.clone());
    draft.output(
        &format!("o{n}"),
        &format!("PerThread<{}>", ty.name),
        &ty.name,
        expected,
        ty.size,
    );
    draft.parameters.push(Parameter {
        text: format!("a{n}: BlockUninit<{}, {elements}>", ty.name),
        argument: None,
    });
    draft.fills += &format!("let a{n} = a{n}.init(&mut block, |_, at| in{n}[at]);\n");
    draft.reads += &format!("o{n}.set(i, v{n}.slice(t)[i.get() * 7 % {elements}]);\n");
    draft.fills += &format!("let v{n} = a{n}.view();\n");
}
