//! Deterministic bytes of messages that have a descriptor but no Rust type.
//!
//! Fields are in the order of their numbers, and entries of maps in the order of their keys.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, Value as Field};

pub(crate) fn canonical(message: &DynamicMessage) -> Vec<u8> {
    let mut fields: Vec<(FieldDescriptor, &Field)> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    let mut bytes = Vec::new();
    for (field, value) in fields {
        write_field(&field, value, &mut bytes);
    }
    bytes
}

fn write_field(field: &FieldDescriptor, value: &Field, bytes: &mut Vec<u8>) {
    match (value, field.kind()) {
        (Field::Message(message), _) => write_message(field, message, bytes),
        (Field::List(items), Kind::Message(_)) => {
            items.iter().filter_map(Field::as_message).for_each(|item| write_message(field, item, bytes));
        }
        (Field::Map(entries), Kind::Message(entry)) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let mut written = DynamicMessage::new(entry.clone());
                written.set_field(&entry.map_entry_key_field(), key.clone().into());
                written.set_field(&entry.map_entry_value_field(), value.clone());
                write_message(field, &written, bytes);
            }
        }
        // Scalars have one encoding; prost-reflect knows it.
        (value, _) => {
            let mut alone = DynamicMessage::new(field.parent_message().clone());
            alone.set_field(field, value.clone());
            bytes.extend(alone.encode_to_vec());
        }
    }
}

fn write_message(field: &FieldDescriptor, message: &DynamicMessage, bytes: &mut Vec<u8>) {
    let inner = canonical(message);
    encode_key(field.number(), WireType::LengthDelimited, bytes);
    encode_varint(inner.len() as u64, bytes);
    bytes.extend(inner);
}
