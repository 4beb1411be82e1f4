//! Entries have every member that bodies have: the detail of an entity shows it in the same form.

use weft_contract::resource::answers::ANSWERS;
use weft_contract::schema::{Object, Schema};
use weft_contract::{Field, FieldType, Response};
use weft_model::Kind;

use crate::domain::change::form::{NOT_KEPT, SHOWN_AS};
use crate::domain::change::section::SECTIONS;

/// Whether an answer shows a value in the form in which bodies have it.
fn has_form(model: Kind, body: FieldType, answer: Schema) -> bool {
    use FieldType::{Bool, Choice, Integer, Json, Length, List, Map, Object, Text, Time};
    match (body, answer) {
        (body, Schema::Nullable(answer)) => has_form(model, body, *answer),
        (List(body), Schema::List(answer)) => has_form(model, *body, *answer),
        (Map(body), Schema::Map(answer)) => has_form(model, *body, *answer),
        (Object(body), Schema::Object(answer)) => missing(model, body, answer).is_empty(),
        (List(body), Schema::Plain(List(answer))) | (Map(body), Schema::Plain(Map(answer))) => {
            has_form(model, *body, Schema::Plain(*answer))
        }
        (Object(body), Schema::Plain(Object(answer))) => body.iter().all(|field| {
            let shown = answer.iter().find(|shown| shown.name == field.name);
            shown.is_some_and(|shown| has_form(model, field.shape, Schema::Plain(shown.shape)))
        }),
        (
            Text | Length { .. } | Choice(_) | Time,
            Schema::Plain(Text | Length { .. } | Choice(_) | Time),
        )
        | (Bool, Schema::Plain(Bool))
        | (Integer { .. }, Schema::Plain(Integer { .. }))
        | (Json, Schema::Plain(Json) | Schema::Map(Schema::Any)) => true,
        _ => false,
    }
}

/// The members of a body that an answer lacks, or has in another form.
fn missing(model: Kind, fields: &[Field], answer: &'static Object) -> Vec<&'static str> {
    let shown = answer.all();
    let is_missing = |field: &&Field| {
        let other = SHOWN_AS.iter().find(|(of, name, _)| *of == model && *name == field.name);
        let name = other.map_or(field.name, |(_, _, name)| name);
        let member = shown.iter().find(|member| member.name == name);
        !member.is_some_and(|member| has_form(model, field.shape, member.schema))
    };
    let kept = fields.iter().filter(|field| !NOT_KEPT.contains(&(model, field.name)));
    kept.filter(is_missing).map(|field| field.name).collect()
}

#[test]
fn details_show_what_documents_set() {
    for section in SECTIONS {
        let (kind, model) = (section.kind(), section.model());
        let Some(Response::Detail(name)) = kind.detail().map(|row| row.response) else {
            panic!("{} cannot be read", kind.plural)
        };
        let answer = ANSWERS.iter().find(|(known, _)| *known == name);
        let Some((_, Schema::Object(answer))) = answer else { panic!("{name} is no object") };
        let missing = missing(model, kind.fields, answer);
        assert!(missing.is_empty(), "{}: exports would lose {missing:?}", kind.plural);
    }
}
