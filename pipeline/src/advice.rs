//! Advice on buffers: replays a run's items with other numbers of buffers and compares the times.

/// The time that a stage took for each item, and the number of its workers.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub(super) ns: Vec<u64>,
    pub(super) workers: usize,
}

/// The most buffers that are tried.
const MOST: usize = 64;
/// A saving below this share of the time is not worth a buffer.
const WORTH: f64 = 0.02;

/// When the last item would leave the pipeline if each boundary had `buffers` slots.
///
/// A stage starts an item when three things have happened. The item has arrived. A worker is free.
/// The output has a free slot: the next stage has finished the item that came `buffers` items
/// earlier. The replay computes only these recurrences, so it leaves out the costs of threads.
pub(super) fn replay(tracks: &[Track], buffers: usize) -> u64 {
    let items = tracks.iter().map(|track| track.ns.len()).min().unwrap_or(0);
    let mut ends = vec![vec![0_u64; items]; tracks.len()];
    let mut free: Vec<Vec<u64>> = tracks.iter().map(|track| vec![0; track.workers.max(1)]).collect();
    let mut last = 0;
    for item in 0..items {
        let mut came = 0;
        for (stage, track) in tracks.iter().enumerate() {
            let slot = match (item.checked_sub(buffers), ends.get(stage + 1)) {
                (Some(before), Some(next)) => next[before],
                _ => 0,
            };
            let worker = free[stage].iter_mut().min().expect("at least one worker");
            came = came.max(*worker).max(slot) + track.ns[item];
            *worker = came;
            ends[stage][item] = came;
        }
        last = last.max(came);
    }
    last
}

/// The fewest buffers that do about as well as any number of buffers, and the share of the time
/// that they save. `None` if they save less than [`WORTH`] compared with `buffers`.
pub(super) fn more_buffers(tracks: &[Track], buffers: usize) -> Option<(usize, f64)> {
    let now = replay(tracks, buffers) as f64;
    let best = replay(tracks, buffers.max(MOST)) as f64;
    if now <= 0.0 || (now - best) / now < WORTH {
        return None;
    }
    let near = best + (now - best) * 0.1;
    let enough = (buffers + 1..MOST).find(|more| replay(tracks, *more) as f64 <= near);
    let enough = enough.unwrap_or(MOST);
    Some((enough, 1.0 - replay(tracks, enough) as f64 / now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(ns: impl IntoIterator<Item = u64>) -> Track {
        Track {
            ns: ns.into_iter().collect(),
            workers: 1,
        }
    }

    #[test]
    fn one_buffer_makes_neighbours_take_turns_and_two_suffice_for_even_stages() {
        let tracks = vec![track([10; 100]); 3];
        assert_eq!(replay(&tracks, 1), 10 * (2 * 100 + 1));
        assert_eq!(replay(&tracks, 2), 10 * (100 + 2));
        let (buffers, saved) = more_buffers(&tracks, 1).unwrap();
        assert!(buffers == 2 && (0.45..0.5).contains(&saved), "{buffers} {saved}");
        assert_eq!(more_buffers(&tracks, 2), None);
    }

    #[test]
    fn a_stage_that_is_slow_at_times_needs_a_buffer_for_each_item_that_arrives_meanwhile() {
        // The sink takes 45 for every fifth item and 1 for each other item: a little more than 9 on
        // average. The other stages take 10.
        let sink = (0..500).map(|item| if item % 5 == 0 { 45 } else { 1 });
        let tracks = [track([10; 500]), track([10; 500]), track(sink)];
        let (buffers, _) = more_buffers(&tracks, 1).unwrap();
        assert!((4..=6).contains(&buffers), "{buffers}");
        assert_eq!(more_buffers(&tracks, 6), None);
    }

    #[test]
    fn more_workers_help_a_stage_that_is_too_slow_and_more_buffers_do_not() {
        let slow = track([40; 200]);
        assert_eq!(more_buffers(&[track([10; 200]), slow.clone()], 2), None);
        let several = Track { workers: 4, ..slow };
        assert_eq!(replay(&[track([10; 200]), several], 8), 10 * 200 + 40);
    }

    #[test]
    fn nothing_ran() {
        assert_eq!(more_buffers(&[track([]), track([])], 1), None);
        assert_eq!(more_buffers(&[], 1), None);
    }
}
