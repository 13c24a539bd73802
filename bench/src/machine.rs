//! [`Machine`]: what the figures were measured on.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use cuda_rt::{Device, Live};
use serde_json::{Value, json};

/// The machine, its GPU and its drivers.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    device: String,
    simulated: bool,
    /// The version of NVIDIA's driver, if its kernel module says it.
    driver: Option<String>,
    /// The newest CUDA that the driver has, or 0.0.
    cuda: String,
    processor: String,
    processors: usize,
    /// The date, and the time in UTC.
    date: String,
}

impl Machine {
    pub(crate) fn of<D: Live>(gpu: &Device<D>) -> Self {
        let properties = gpu.properties();
        let version = properties.driver_version;
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or("unknown", |(_, name)| name.trim())
            .to_owned();
        let driver = read("/proc/driver/nvidia/version");
        let is_version = |word: &&str| word.split('.').count() >= 2 && word.starts_with(char::is_numeric);
        Self {
            device: properties.name.clone(),
            simulated: gpu.is_simulated(),
            driver: driver.split_whitespace().find(is_version).map(str::to_owned),
            cuda: format!("{}.{}", version / 1000, version % 1000 / 10),
            processor,
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            date: date(SystemTime::now()),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "device": self.device, "simulated": self.simulated, "driver": self.driver,
            "cuda": self.cuda, "processor": self.processor, "processors": self.processors,
            "date": self.date,
        })
    }

    /// The date alone.
    pub(crate) fn day(&self) -> &str {
        self.date.split(' ').next().unwrap_or(&self.date)
    }

    /// One paragraph.
    pub(crate) fn sentence(&self) -> String {
        let Self {
            device,
            processor,
            processors,
            date,
            ..
        } = self;
        if self.simulated {
            return format!(
                "{date} UTC, {device}, {processors} cores of {processor}. **Simulated: the times are \
                 the simulated device's own work on the host, and say nothing of a GPU.**"
            );
        }
        let driver = self.driver.as_deref().unwrap_or("of unknown version");
        let cuda = &self.cuda;
        format!("{date} UTC, {device}, driver {driver} (CUDA {cuda}), {processors} cores of {processor}.")
    }
}

/// A time in UTC, as `2026-11-23 04:05`.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}",
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_795_406_700, "2026-11-23 04:05"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
