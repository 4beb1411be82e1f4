//! A small network to filter: people and services that point at each other.

use std::ops::ControlFlow;

use time::OffsetDateTime;
use time::macros::datetime;

use crate::filter::{
    Audience, Column, FilterError, Plan, RecordVisitor, Symbols, Type, Value, ValueVisitor, bind,
    parse,
};

#[derive(Debug, Clone, Default)]
pub(super) struct Person {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) admin: Option<bool>,
    pub(super) age: Option<i64>,
    pub(super) score: Option<f64>,
    pub(super) created: Option<OffsetDateTime>,
    pub(super) roles: Vec<&'static str>,
    pub(super) tags: Vec<(&'static str, Value<'static>)>,
    pub(super) services: Vec<usize>,
    pub(super) favourite: Option<usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) configs: Vec<&'static str>,
    pub(super) users: Vec<usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Net {
    pub(super) people: Vec<Person>,
    pub(super) services: Vec<Service>,
}

fn texts(values: &[&str], visit: ValueVisitor<'_>) -> ControlFlow<()> {
    values.iter().try_for_each(|value| visit(Value::text(value)))
}

fn to_services(net: &Net, places: &[usize], visit: RecordVisitor<'_>) -> ControlFlow<()> {
    let mut services = places.iter().filter_map(|place| net.services.get(*place));
    services.try_for_each(|service| visit(&SERVICES.row(net, service)))
}

fn to_people(net: &Net, places: &[usize], visit: RecordVisitor<'_>) -> ControlFlow<()> {
    let mut people = places.iter().filter_map(|place| net.people.get(*place));
    people.try_for_each(|person| visit(&PEOPLE.row(net, person)))
}

type PersonColumn = Column<Net, Person>;
type ServiceColumn = Column<Net, Service>;

pub(super) static PEOPLE: Symbols<Net, Person> = Symbols {
    kind: "people",
    id: |person| person.id,
    shared: &[],
    columns: &[
        PersonColumn::one("id", Type::String, |_, it| Value::text(it.id)).public(),
        PersonColumn::one("name", Type::String, |_, it| match it.name {
            "" => Value::Null,
            name => Value::text(name),
        })
        .public(),
        PersonColumn::one("isAdmin", Type::Bool, |_, it| it.admin.map_or(Value::Null, Value::Bool))
            .public(),
        PersonColumn::one("age", Type::Int, |_, it| it.age.map_or(Value::Null, Value::Int))
            .public(),
        PersonColumn::one("score", Type::Float, |_, it| it.score.map_or(Value::Null, Value::Float))
            .public(),
        PersonColumn::one("createdAt", Type::Time, |_, it| {
            it.created.map_or(Value::Null, Value::Time)
        })
        .public(),
        PersonColumn::set("roleAttributes", Type::String, |_, it, visit| texts(&it.roles, visit))
            .public(),
        PersonColumn::map("tags", |_, it, key| {
            let found = it.tags.iter().find(|(name, _)| *name == key);
            found.map_or(Value::Null, |(_, value)| value.clone())
        })
        .public(),
        PersonColumn::set("services", Type::String, |net, it, visit| {
            let ids = it.services.iter().filter_map(|place| net.services.get(*place));
            ids.map(|service| service.id).try_for_each(|id| visit(Value::text(id)))
        })
        .public_link()
        .linked(&SERVICES, |net, it, visit| to_services(net, &it.services, visit)),
        PersonColumn::one("favourite", Type::String, |net, it| {
            let service = it.favourite.and_then(|place| net.services.get(place));
            service.map_or(Value::Null, |service| Value::text(service.id))
        })
        .public()
        .linked(&SERVICES, |net, it, visit| to_services(net, it.favourite.as_slice(), visit)),
        PersonColumn::one("login.tries", Type::Int, |_, it| Value::Int(it.roles.len() as i64))
            .public(),
        PersonColumn::one("password", Type::String, |_, _| Value::text("secret")),
    ],
};

pub(super) static SERVICES: Symbols<Net, Service> = Symbols {
    kind: "services",
    id: |service| service.id,
    shared: &[],
    columns: &[
        ServiceColumn::one("id", Type::String, |_, it| Value::text(it.id)).public(),
        ServiceColumn::one("name", Type::String, |_, it| Value::text(it.name)).public(),
        ServiceColumn::set("configs", Type::String, |_, it, visit| texts(&it.configs, visit))
            .public(),
        ServiceColumn::set("users", Type::String, |net, it, visit| {
            let ids = it.users.iter().filter_map(|place| net.people.get(*place));
            ids.map(|person| person.id).try_for_each(|id| visit(Value::text(id)))
        })
        .public_link()
        .linked(&PEOPLE, |net, it, visit| to_people(net, &it.users, visit)),
    ],
};

/// Ann (a), Bob (b), Cid (c) and the empty Dot (d); services web (s) and ssh (t).
pub(super) fn net() -> Net {
    Net {
        people: vec![
            Person {
                id: "a",
                name: "Ann",
                admin: Some(true),
                age: Some(30),
                score: Some(1.5),
                created: Some(datetime!(2024-01-01 12:00 UTC)),
                roles: vec!["dev", "ops"],
                tags: vec![
                    ("site", Value::text("Berlin")),
                    ("floor", Value::Int(12)),
                    ("new-desk", Value::Bool(true)),
                ],
                services: vec![0, 1],
                favourite: Some(0),
            },
            Person {
                id: "b",
                name: "Bob",
                admin: Some(false),
                age: Some(40),
                score: Some(2.0),
                created: Some(datetime!(2024-06-01 12:00 UTC)),
                roles: vec!["ops"],
                tags: vec![("site", Value::text("Bonn"))],
                services: vec![1],
                favourite: Some(1),
            },
            Person {
                id: "c",
                name: "Cid",
                age: Some(30),
                roles: vec!["dev"],
                tags: vec![("floor", Value::text("twelve"))],
                ..Person::default()
            },
            Person { id: "d", ..Person::default() },
        ],
        services: vec![
            Service { id: "s", name: "web", configs: vec!["host", "intercept"], users: vec![0] },
            Service { id: "t", name: "ssh", configs: vec![], users: vec![0, 1] },
        ],
    }
}

/// A client that may read every kind.
pub(super) const CALLER: Audience<'static> = Audience::Caller(&|_| true);

pub(super) fn plan_for(audience: Audience<'_>, text: &str) -> Result<Plan, FilterError> {
    bind(&parse(text)?, &PEOPLE, audience)
}

pub(super) fn plan(text: &str) -> Plan {
    plan_for(CALLER, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The ids of the people that a plan selects.
pub(super) fn ids_of(plan: &Plan) -> String {
    let net = net();
    let selected = net.people.iter().filter(|it| plan.matches(&PEOPLE.row(&net, it)));
    selected.map(|person| person.id).collect()
}

/// The ids of the people that a caller's filter selects.
pub(super) fn ids(text: &str) -> String {
    ids_of(&plan(text))
}
