//! Which hash slot a key is in, and a short text for every slot.

use std::sync::{Mutex, OnceLock, PoisonError};

/// How many slots a Redis Cluster has.
const SLOTS: u16 = 16_384;

/// The slot of `key`: of its hash tag, if it has one.
pub(super) fn of(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|&byte| byte == b'{')?;
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

/// The slot tag of `slot`: the smallest number whose decimal text is in that slot.
///
/// A companion key `prefix{tag}~...` is then in the same slot as its lock, whatever the lock is
/// called. This is part of the format: every client must come to the same tag.
pub(super) fn tag(slot: u16) -> u32 {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    let table = TABLE.get_or_init(|| Mutex::new(Table::new()));
    table
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .find(slot % SLOTS)
}

/// Filled only as far as it was needed: a process that takes one lock finds its tag in a
/// thousandth of the time that the whole table takes.
struct Table {
    tags: Vec<Option<u32>>,
    next: u32,
}

impl Table {
    fn new() -> Self {
        Self {
            tags: vec![None; SLOTS.into()],
            next: 0,
        }
    }

    fn find(&mut self, slot: u16) -> u32 {
        loop {
            if let Some(tag) = self.tags[usize::from(slot)] {
                return tag;
            }
            let number = self.next;
            self.next += 1;
            let there = usize::from(crc16(number.to_string().as_bytes()) % SLOTS);
            self.tags[there].get_or_insert(number);
        }
    }
}

/// CRC-16/XMODEM, which Redis Cluster uses. Source: the Redis Cluster specification, appendix A.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let index = usize::from((crc >> 8) ^ u16::from(byte));
        (crc << 8) ^ CRC_TABLE[index]
    })
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(of(b"foo"), 12182);
        assert_eq!(of(b"{user1000}.following"), of(b"{user1000}.followers"));
        assert_eq!(of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn every_slot_has_a_short_tag_of_its_own() {
        let mut longest = 0;
        for slot in 0..SLOTS {
            let text = tag(slot).to_string();
            assert_eq!(of(text.as_bytes()), slot);
            longest = longest.max(text.len());
        }
        assert!(longest <= 6, "{longest}");
    }
}
