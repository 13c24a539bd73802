//! The parser: makes statements from text. An error gives the column, and what was expected there.

use super::cursor::Cursor;
use super::statement::*;
use cuda_rt_driver::AccessKind;

type Result<T> = std::result::Result<T, ProgramError>;

/// The deepest nesting of parts.
const DEEPEST: usize = 32;

/// Parses the whole text as one statement.
pub(super) fn step(text: &str) -> Result<Step> {
    let mut cursor = Cursor::new(text);
    let thread = thread(&mut cursor);
    let statement = statement(&mut cursor)?;
    cursor.expect_end()?;
    Ok(Step { thread, statement })
}

/// Takes `T2:`, if it comes next.
fn thread(cursor: &mut Cursor<'_>) -> Option<Name> {
    let word = cursor.peek_word()?;
    if !is_thread(word) {
        return None;
    }
    let mut ahead = cursor.clone();
    let name = ahead.word("a thread").ok()?;
    if !ahead.accept(":") {
        return None;
    }
    *cursor = ahead;
    Some(name)
}

fn is_thread(word: &str) -> bool {
    word.strip_prefix('T')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn statement(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let word = cursor.word("a statement")?;
    Ok(match word.text.as_str() {
        "mem" => Statement::Memory(list(cursor, |c| declared(c, "a name of memory", space))?),
        "str" => Statement::Streams(list(cursor, |c| declared(c, "a name of a stream", blocking))?),
        "k" => {
            let touches = in_brackets(cursor, touches)?;
            Statement::Operation(Operation::Kernel(touches), on_stream(cursor)?)
        }
        "hostfn" => {
            let touches = in_brackets(cursor, touches)?;
            Statement::Operation(Operation::HostFunction(touches), on_stream(cursor)?)
        }
        "mallocA" => {
            let memory = in_brackets(cursor, whole)?;
            Statement::Operation(Operation::Allocate(memory), on_stream(cursor)?)
        }
        "freeA" => {
            let region = in_brackets(cursor, region)?;
            Statement::Operation(Operation::Free(region), on_stream(cursor)?)
        }
        "cpy" | "cpyA" => {
            let (to, from) = in_brackets(cursor, to_and_from)?;
            let called = called(cursor, &word.text)?;
            Statement::Copy { to, from, called }
        }
        "cpyPeer" | "cpyPeerA" => {
            let (to, from) = in_brackets(cursor, to_and_from)?;
            let called = called(cursor, &word.text)?;
            Statement::CopyPeer { to, from, called }
        }
        "set" | "setA" => {
            let to = in_brackets(cursor, region)?;
            let called = called(cursor, &word.text)?;
            Statement::Fill { to, called }
        }
        "rec" => {
            let event = in_brackets(cursor, event)?;
            Statement::Record {
                event,
                stream: on_stream(cursor)?,
            }
        }
        "wait" => in_brackets(cursor, |c| {
            let stream = stream(c)?;
            c.expect(",")?;
            Ok(Statement::Wait {
                stream,
                event: event(c)?,
            })
        })?,
        "evSync" => Statement::SynchronizeEvent(in_brackets(cursor, event)?),
        "evQuery" => {
            let event = in_brackets(cursor, event)?;
            seen_done(cursor)?;
            Statement::SynchronizeEvent(event)
        }
        "stSync" => Statement::SynchronizeStream(in_brackets(cursor, stream)?),
        "stQuery" => {
            let stream = in_brackets(cursor, stream)?;
            seen_done(cursor)?;
            Statement::SynchronizeStream(stream)
        }
        "devSync" => Statement::SynchronizeDevice,
        "host" => Statement::Host(some_touches(cursor)?),
        "ext" => Statement::Foreign(some_touches(cursor)?),
        "extA" => Statement::BeginForeign {
            touches: some_touches(cursor)?,
            request: request(cursor)?,
        },
        "extWait" => Statement::EndForeign(request(cursor)?),
        "malloc" => Statement::Allocate(in_brackets(cursor, whole)?, Space::Dev),
        "hostAlloc" => Statement::Allocate(in_brackets(cursor, whole)?, Space::Pin),
        "free" => Statement::Release("free", in_brackets(cursor, region)?),
        "freeHost" => Statement::Release("freeHost", in_brackets(cursor, region)?),
        "hostDrop" => Statement::Release("hostDrop", in_brackets(cursor, region)?),
        "recycle" => Statement::Release("recycle", in_brackets(cursor, region)?),
        "setDev" => Statement::SetDevice(in_brackets(cursor, |c| c.number("a device's number"))?),
        "join" => Statement::Join(in_brackets(cursor, joined)?),
        "destroy" => Statement::DestroyStream(in_brackets(cursor, |c| c.word("a name of a stream"))?),
        "destroyEv" => Statement::DestroyEvent(in_brackets(cursor, event)?),
        unknown if unknown.starts_with("cap") || matches!(unknown, "inst" | "launch") => {
            let message = format!("`{unknown}`: this grammar has no captures and graphs");
            return Err(ProgramError::new(word.column, message));
        }
        unknown => {
            return Err(ProgramError::new(
                word.column,
                format!("there is no statement `{unknown}`"),
            ));
        }
    })
}

fn in_brackets<T>(cursor: &mut Cursor<'_>, parse: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Result<T> {
    cursor.expect("(")?;
    let value = parse(cursor)?;
    cursor.expect(")")?;
    Ok(value)
}

fn list<T>(cursor: &mut Cursor<'_>, mut parse: impl FnMut(&mut Cursor<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut items = vec![parse(cursor)?];
    while cursor.accept(",") {
        items.push(parse(cursor)?);
    }
    Ok(items)
}

/// Takes `name:kind` or `name:kind@device`.
fn declared<K>(
    cursor: &mut Cursor<'_>,
    what: &str,
    kind: impl FnOnce(&Name) -> Result<K>,
) -> Result<(Name, K, Option<u32>)> {
    let name = cursor.word(what)?;
    cursor.expect(":")?;
    let kind = kind(&cursor.word("its kind")?)?;
    Ok((name, kind, device(cursor)?))
}

fn space(name: &Name) -> Result<Space> {
    Ok(match name.text.as_str() {
        "dev" => Space::Dev,
        "pin" => Space::Pin,
        "page" => Space::Page,
        "man" => Space::Man,
        other => {
            let message =
                format!("there is no kind of memory `{other}`: the kinds are dev, pin, page and man");
            return Err(ProgramError::new(name.column, message));
        }
    })
}

fn blocking(name: &Name) -> Result<Blocking> {
    Ok(match name.text.as_str() {
        "blk" => Blocking::Blocking,
        "nb" => Blocking::NonBlocking,
        other => {
            let message = format!("there is no kind of stream `{other}`: the kinds are blk and nb");
            return Err(ProgramError::new(name.column, message));
        }
    })
}

/// Takes `@1`, if it comes next.
fn device(cursor: &mut Cursor<'_>) -> Result<Option<u32>> {
    if cursor.accept("@") {
        cursor.number("a device's number").map(Some)
    } else {
        Ok(None)
    }
}

/// Takes the name of a whole block of memory, without a part.
fn whole(cursor: &mut Cursor<'_>) -> Result<Name> {
    cursor.word("a name of memory")
}

fn region(cursor: &mut Cursor<'_>) -> Result<Region> {
    let memory = cursor.word("a name of memory")?;
    let mut parts = Vec::new();
    while cursor.accept(".") {
        if parts.len() == DEEPEST {
            return cursor.error(format!("parts are nested more than {DEEPEST} deep"));
        }
        parts.push(match cursor.peek_word() {
            Some("lo") => cursor.word("").map(|_| Part::Low)?,
            Some("hi") => cursor.word("").map(|_| Part::High)?,
            Some(_) => return cursor.error("a part is `lo`, `hi` or a number"),
            None => Part::Index(cursor.number("a part: `lo`, `hi` or a number")?),
        });
    }
    Ok(Region {
        memory,
        parts,
        device: None,
    })
}

/// Takes one side of a copy, which may name its device.
fn side(cursor: &mut Cursor<'_>) -> Result<Region> {
    let region = region(cursor)?;
    Ok(Region {
        device: device(cursor)?,
        ..region
    })
}

fn to_and_from(cursor: &mut Cursor<'_>) -> Result<(Region, Region)> {
    let to = side(cursor)?;
    cursor.expect("<-")?;
    Ok((to, side(cursor)?))
}

/// Takes a list of accesses, `R a,b W c`, which may be empty.
fn touches(cursor: &mut Cursor<'_>) -> Result<Vec<Touch>> {
    let mut touches = Vec::new();
    loop {
        let kind = match cursor.peek_word() {
            Some("R") => AccessKind::Read,
            Some("W") => AccessKind::Write,
            Some(_) => return cursor.error("expected `R` or `W`"),
            None => return Ok(touches),
        };
        cursor.word("`R` or `W`")?;
        let regions = list(cursor, region)?;
        touches.extend(regions.into_iter().map(|region| Touch { kind, region }));
    }
}

fn some_touches(cursor: &mut Cursor<'_>) -> Result<Vec<Touch>> {
    let start = cursor.clone();
    let touches = touches(cursor)?;
    if touches.is_empty() {
        start.expected("`R` or `W`")
    } else {
        Ok(touches)
    }
}

fn stream(cursor: &mut Cursor<'_>) -> Result<StreamName> {
    const WHAT: &str = "a stream: `0` or a name";
    if cursor.peek_word().is_some() {
        return cursor.word(WHAT).map(StreamName::Named);
    }
    let start = cursor.clone();
    match cursor.label(WHAT)?.text.as_str() {
        "0" => Ok(StreamName::Legacy),
        _ => start.expected(WHAT),
    }
}

fn on_stream(cursor: &mut Cursor<'_>) -> Result<StreamName> {
    cursor.expect("@")?;
    stream(cursor)
}

/// Takes the stream of an asynchronous call; the name of that form ends in `A`.
fn called(cursor: &mut Cursor<'_>, word: &str) -> Result<Called> {
    if word.ends_with('A') {
        on_stream(cursor).map(Called::On)
    } else {
        Ok(Called::Synchronous)
    }
}

fn event(cursor: &mut Cursor<'_>) -> Result<Name> {
    cursor.label("a name of an event")
}

fn request(cursor: &mut Cursor<'_>) -> Result<Name> {
    cursor.expect("#")?;
    cursor.label("a request")
}

fn joined(cursor: &mut Cursor<'_>) -> Result<Name> {
    let start = cursor.clone();
    let name = cursor.word("a thread, such as `T2`")?;
    if is_thread(&name.text) {
        Ok(name)
    } else {
        start.expected("a thread, such as `T2`")
    }
}

fn seen_done(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.expect("=")?;
    match cursor.peek_word() {
        Some("ok") => cursor.word("`ok`").map(drop),
        _ => cursor.expected("`ok`"),
    }
}
