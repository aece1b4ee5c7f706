//! Did you mean?

/// The candidate that is close enough to `word` to be what was meant.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const CLOSE_ENOUGH: f64 = 0.8;
    let word = word.to_lowercase();
    // Likeness is strict with short words: one slip in three letters is close enough too.
    let slip = |candidate: &str| candidate.len() > 2 && 3 * strsim::osa_distance(&word, candidate) <= candidate.len();
    candidates
        .into_iter()
        .map(|candidate| (candidate, strsim::jaro_winkler(&word, &candidate.to_lowercase())))
        .filter(|(candidate, likeness)| *likeness > CLOSE_ENOUGH || slip(&candidate.to_lowercase()))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate)
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    list(words, " or ")
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn all_of<S: AsRef<str>>(words: &[S]) -> String {
    list(words, " and ")
}

fn list<S: AsRef<str>>(words: &[S], before_the_last: &str) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            text.push_str(if index + 1 == words.len() { before_the_last } else { ", " });
        }
        text.push('`');
        text.push_str(word.as_ref());
        text.push('`');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_is_alike_and_nothing_else() {
        let known = ["ttl", "retry_window", "lease", "scope", "fingerprint"];
        assert_eq!(closest("TTL", known), Some("ttl"));
        assert_eq!(closest("fingreprint", known), Some("fingerprint"));
        assert_eq!(closest("retry-window", known), Some("retry_window"));
        assert_eq!(closest("tll", known), Some("ttl"));
        assert_eq!(closest("colour", known), None);
    }

    #[test]
    fn lists_words_as_a_sentence() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(all_of(&["a", "b"]), "`a` and `b`");
    }
}
