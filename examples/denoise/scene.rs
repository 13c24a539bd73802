//! [`Scene`]: what the made clip shows: a bridge before a sunset, with a train that crosses it.
//!
//! It has what a filter for noise should keep (thin lines, edges, small windows) and what shows
//! noise best (smooth sky and water). It is made with integers only, so that it is the same on
//! every machine.

/// A scene of some size. Its luma and chroma have the narrow range of video (16 to 235).
#[derive(Debug)]
pub struct Scene {
    width: i64,
    height: i64,
    /// Luma without the train.
    backdrop: Vec<u8>,
}

/// Luma and chroma of one point.
type Colour = [i64; 3];

/// The scene is drawn on a plane of 640 × 360 units, with eight steps to a unit.
const STEPS: i64 = 8;
const WIDE: i64 = 640 * STEPS;
const HIGH: i64 = 360 * STEPS;
/// Height of the water's edge, and of the bridge's deck.
const SHORE: i64 = 262;
const DECK: i64 = 232;
/// The towers stand here.
const TOWERS: [i64; 2] = [150, 490];
/// Points in each pixel, across and down, whose mean is the pixel: edges are smooth.
const POINTS: i64 = 3;

impl Scene {
    /// Draws the scene.
    pub fn new(width: u32, height: u32) -> Self {
        let mut scene = Self {
            width: i64::from(width),
            height: i64::from(height),
            backdrop: Vec::new(),
        };
        scene.backdrop = scene.plane(scene.width, scene.height, 0);
        scene
    }

    /// The luma of a frame, row by row: the backdrop, ripples on the water, and the train.
    pub fn luma(&self, frame: u64) -> Vec<u8> {
        let mut luma = self.backdrop.clone();
        let frame = (frame % (1 << 20)) as i64;
        let rows = luma.chunks_exact_mut(self.width as usize).zip(0..);
        for (row, y) in rows {
            let v = y * HIGH / self.height;
            for (luma, x) in row.iter_mut().zip(0..) {
                let u = x * WIDE / self.width;
                if v > SHORE * STEPS {
                    *luma = (i64::from(*luma) + ripple(u, v, frame)).clamp(16, 235) as u8;
                } else if let Some(train) = train(u, v, frame) {
                    *luma = train;
                }
            }
        }
        luma
    }

    /// The two chroma planes, of half the size, rounded up. They are the same in each frame.
    pub fn chroma(&self) -> Vec<u8> {
        let (width, height) = ((self.width + 1) / 2, (self.height + 1) / 2);
        let mut chroma = self.plane(width, height, 1);
        chroma.extend(self.plane(width, height, 2));
        chroma
    }

    /// One plane of the backdrop.
    fn plane(&self, width: i64, height: i64, channel: usize) -> Vec<u8> {
        let mut plane = Vec::with_capacity((width * height) as usize);
        for y in 0..height {
            for x in 0..width {
                let mut sum = 0;
                for point in 0..POINTS * POINTS {
                    let (i, j) = (point % POINTS, point / POINTS);
                    let u = (x * POINTS + i) * WIDE / (width * POINTS);
                    let v = (y * POINTS + j) * HIGH / (height * POINTS);
                    sum += backdrop(u, v)[channel];
                }
                plane.push((sum / (POINTS * POINTS)).clamp(16, 235) as u8);
            }
        }
        plane
    }
}

/// The colour at a place, in steps.
fn backdrop(u: i64, v: i64) -> Colour {
    let shore = SHORE * STEPS;
    if v > shore {
        return water(u, v);
    }
    if bridge(u, v) {
        return [34, 124, 132];
    }
    land(u, v).unwrap_or_else(|| sky(u, v))
}

/// From `a` to `b`, in `part` of `whole` parts.
fn between(a: Colour, b: Colour, part: i64, whole: i64) -> Colour {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * part.clamp(0, whole) / whole)
}

/// A blue sky, orange near the horizon, and the sun with its glow.
fn sky(u: i64, v: i64) -> Colour {
    let shore = SHORE * STEPS;
    let air = match v * 2 / shore {
        0 => between([66, 152, 116], [112, 128, 148], v, shore / 2),
        _ => between([112, 128, 148], [176, 92, 168], v - shore / 2, shore / 2),
    };
    let (du, dv) = (u - 320 * STEPS, v - 178 * STEPS);
    let (far, radius) = (du * du + dv * dv, 44 * STEPS);
    if far < radius * radius {
        return [222, 92, 146];
    }
    // The glow falls to nothing at four radii.
    let reach = 16 * radius * radius;
    let near = (reach - far).max(0) * 100 / reach;
    between(air, [206, 88, 158], near * near, 14_000)
}

/// A triangle wave: 0 to `height`, with a period of `period`.
fn wave(at: i64, period: i64, height: i64) -> i64 {
    let phase = at.rem_euclid(period);
    (phase.min(period - phase)) * 2 * height / period
}

/// Three ranges of hills, the nearest darkest.
fn land(u: i64, v: i64) -> Option<Colour> {
    let ridge = |top: i64, rough: i64, shift: i64| {
        let at = u / STEPS + shift;
        let crest = wave(at, 310, 34) + wave(at * 3 + 50, 290, 14) + wave(at * 7, 150, rough);
        (top - crest) * STEPS
    };
    [
        (ridge(246, 7, 40), [112, 122, 146]),
        (ridge(262, 9, 215), [84, 126, 138]),
        (ridge(276, 12, 130), [56, 128, 130]),
    ]
    .into_iter()
    .rev()
    .find_map(|(top, colour)| (v > top).then_some(colour))
}

/// The bridge: its deck, two towers, cables and hangers.
fn bridge(u: i64, v: i64) -> bool {
    let (half, tip) = (170 * STEPS, 84 * STEPS);
    let deck = DECK * STEPS;
    let in_deck = (deck..deck + 7 * STEPS).contains(&v);
    let tower = TOWERS.iter().any(|tower| {
        let off = (u - tower * STEPS).abs();
        let leg = (4 * STEPS..=9 * STEPS).contains(&off);
        let beam = off < 9 * STEPS && (v - tip).rem_euclid(34 * STEPS) < 5 * STEPS;
        v >= tip && (leg || beam)
    });
    // The cable between the towers is a parabola; beside them two more go down to the deck.
    let middle = (u - 320 * STEPS).abs();
    let (low, sag) = (deck - 10 * STEPS, deck - 10 * STEPS - tip);
    let cable = if middle <= half {
        low - sag * (middle * middle / half) / half
    } else {
        let out = (half + 190 * STEPS - middle).max(0);
        low - sag * (out * out / (190 * STEPS)) / (190 * STEPS)
    };
    let in_cable = (v - cable).abs() <= 2 * STEPS;
    let hanger = (u + 4 * STEPS).rem_euclid(17 * STEPS) < STEPS && v > cable && v < deck;
    in_deck || tower || in_cable || hanger
}

/// The sky above, darker, with the bridge's piers.
fn water(u: i64, v: i64) -> Colour {
    let shore = SHORE * STEPS;
    let depth = v - shore;
    let pier = TOWERS
        .iter()
        .any(|tower| (u - tower * STEPS).abs() < 13 * STEPS && depth < 9 * STEPS);
    if pier {
        return [44, 126, 130];
    }
    let [luma, blue, red] = sky(u, shore - depth * 2);
    [luma * 6 / 10 + 10, blue + 4, red + 6]
}

/// What a frame adds to the water's luma: rows of ripples that move, larger when they are near.
fn ripple(u: i64, v: i64, frame: i64) -> i64 {
    let depth = v / STEPS - SHORE;
    let row = depth * depth / (24 + depth / 2);
    let across = u / STEPS * 40 / (40 + depth) + row * 37 + frame * 2;
    (wave(across, 44, 26) - 13) * i64::from(row % 2 == 0)
}

/// The train's luma at a place, or `None` beside the train.
fn train(u: i64, v: i64, frame: i64) -> Option<u8> {
    let (length, height) = (250, 11);
    let at = u / STEPS - (330 + frame * 3) % (640 + length) + length;
    let above = DECK - v / STEPS;
    if !(0..length).contains(&at) || !(1..=height).contains(&above) {
        return None;
    }
    let (in_wagon, wagon) = (at % 50, at / 50);
    match () {
        // Between two wagons one sees through.
        () if in_wagon < 2 && wagon > 0 => None,
        () if above <= 2 => Some(26),
        () if (5..=8).contains(&above) && (in_wagon - 4) % 8 < 5 => Some(226),
        () => Some(if wagon % 2 == 0 { 150 } else { 118 }),
    }
}
