//! The formats in which metrics are told, and which of them a request accepts.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older one, version 0.0.4, of Prometheus.
    Prometheus,
}

impl Exposition {
    /// What a request accepts, by the values of its `Accept`: OpenMetrics, unless it names text and prefers it.
    pub(crate) fn accepted<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for range in accept.flat_map(|value| value.split(',')) {
            let range = range.to_ascii_lowercase();
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
            let quality = quality.unwrap_or(1.0);
            match name {
                "application/openmetrics-text" | "application/*" => open = open.max(quality),
                "text/plain" | "text/*" => text = text.max(quality),
                _ => {}
            }
        }
        if text > open { Self::Prometheus } else { Self::OpenMetrics }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Metrics that are written as OpenMetrics, in this format.
    pub(crate) fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => prometheus(&text),
        }
    }
}

/// Prometheus' format gives families the names of their samples, and has no kind `info`, no units and no end.
fn prometheus(open: &str) -> String {
    let mut out = String::with_capacity(open.len() + open.len() / 8);
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { continue };
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&str], expected: Exposition) {
        assert_eq!(Exposition::accepted(accept.iter().copied()), expected, "{accept:?}");
    }

    #[test]
    fn text_is_for_those_who_prefer_it() {
        use Exposition::{OpenMetrics, Prometheus};
        check(&[], OpenMetrics);
        check(&["*/*"], OpenMetrics);
        check(&["text/html,application/xhtml+xml,*/*;q=0.8"], OpenMetrics);
        check(&["text/plain"], Prometheus);
        check(&["Text/Plain; version=0.0.4; q=0.3, */*;q=0.1"], Prometheus);
        check(&["text/*", "*/*"], Prometheus);
        check(&["text/plain;q=0"], OpenMetrics);
        // What Prometheus 2 and 3 send.
        let open = "application/openmetrics-text;version=1.0.0";
        check(&[open, "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"], OpenMetrics);
        let escaped = format!("{open};escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1");
        check(&[&escaped], OpenMetrics);
        check(&[&format!("{open};q=0.2"), "text/plain;version=0.0.4;q=0.5"], Prometheus);
    }

    #[test]
    fn families_have_the_names_of_their_samples() {
        let open = "# HELP a_requests Requests answered.\n# TYPE a_requests counter\na_requests_total{m=\"x\"} 1\n\
            # HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_sum 0.5\n\
            # HELP a_build The program.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
            # HELP a_ready Whether.\n# TYPE a_ready gauge\na_ready 1\n# EOF\n";
        let text = "# HELP a_requests_total Requests answered.\n# TYPE a_requests_total counter\n\
            a_requests_total{m=\"x\"} 1\n# HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_sum 0.5\n\
            # HELP a_build_info The program.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
            # HELP a_ready Whether.\n# TYPE a_ready gauge\na_ready 1\n";
        assert_eq!(Exposition::Prometheus.of_open_metrics(open.to_owned()), text);
        assert_eq!(Exposition::OpenMetrics.of_open_metrics(open.to_owned()), open);
    }
}
