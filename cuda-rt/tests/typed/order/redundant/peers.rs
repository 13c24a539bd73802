//! Streams of two devices.

use super::{First, LEN, Second, edges, filled, read, simulated};

#[test]
fn a_wait_for_another_device_is_left_out_where_it_was_made() {
    simulated(|here| {
        here.simulated_peer(|there| {
            let (first, second) = (
                here.stream::<First<_>>().unwrap(),
                there.stream::<Second<_>>().unwrap(),
            );
            let kept = filled(&first, 1);
            let (earlier, later) = (first.record_event().unwrap(), filled(&first, 2));
            let event = first.record_event().unwrap();
            let (made, ()) = edges(&here, || second.wait_event_of_peer(&event).unwrap());
            assert_eq!(made, [0, 1, 0]);
            let (made, ()) = edges(&here, || {
                second.wait_event_of_peer(&event).unwrap();
                second.wait_event_of_peer(&earlier).unwrap();
            });
            assert_eq!(made, [0, 0, 0]);
            assert!(second.is_done().unwrap() || second.synchronize().is_ok());
            // The other device was behind this one. But it does not answer for this one: the host
            // asks this one too, once.
            drop(second.record_event().unwrap().synchronize());
            let wait = || first.record_event().unwrap().synchronize().unwrap();
            let (made, _) = edges(&here, wait);
            assert_eq!(made, [0, 0, 1]);
            let (made, _) = edges(&here, wait);
            assert_eq!(made, [0, 0, 0]);
            assert_eq!(read(&here, &first, &kept), [1; LEN]);
            drop(later);
        })
        .unwrap();
    });
}
