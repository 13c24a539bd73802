//! Harness of the UI tests.
