//! `#[derive(Resource)]`: structs of buffers that are released and acquired as one.
