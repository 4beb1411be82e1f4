//! What happens to the network of a run.

use std::fmt;
use std::time::Duration;

use crate::mesh::{Host, World};
use crate::random::Draw;

/// Something that happens to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody dials a service at a router.
    Dial {
        /// The router of the dialer.
        router: String,
        /// The service.
        service: String,
        /// The number of the controller that the router asks, if it is connected there.
        controller: usize,
        /// Whether the router chooses the id of the circuit, which all attempts to make it have then.
        chooses_id: bool,
    },
    /// The application at an end of a circuit closes it.
    HangUp {
        /// The number of the circuit, in the order of the ids.
        circuit: usize,
        /// Whether it is the dialer.
        by_dialer: bool,
    },
    /// A link breaks, and is dialed again at once.
    Break {
        /// The link.
        link: String,
    },
    /// A link breaks, and cannot be dialed again for some time.
    Unplug {
        /// The link.
        link: String,
        /// The time.
        time: Duration,
    },
    /// The channel of a router to a controller breaks, and it cannot connect again for some time.
    CutOff {
        /// The router.
        router: String,
        /// The controller.
        controller: usize,
        /// The time.
        time: Duration,
    },
    /// A router gives its channel to a controller up and connects anew. The controller, to which nothing of that comes,
    /// still has the former channel.
    Abandon {
        /// The router.
        router: String,
        /// The controller.
        controller: usize,
    },
    /// Nothing passes between a router and a controller for some time; nothing is lost.
    Stall {
        /// The router.
        router: String,
        /// The controller.
        controller: usize,
        /// The time.
        time: Duration,
    },
    /// A router stops, loses its circuits, and starts some time later.
    Restart {
        /// The router.
        router: String,
        /// The time.
        time: Duration,
    },
    /// A router handles nothing for some time, and loses nothing.
    Freeze {
        /// The router.
        router: String,
        /// The time.
        time: Duration,
    },
    /// An operator gives a link another cost, at all controllers.
    Cost {
        /// The link.
        link: String,
        /// The cost.
        cost: u16,
    },
    /// A router sets routes up, and answers only after so much time, for a minute.
    Slow {
        /// The router.
        router: String,
        /// The time.
        time: Duration,
    },
    /// The sessions of the dialers at a router end.
    EndSessions {
        /// The router.
        router: String,
    },
    /// The hosts at a router behave otherwise from now on.
    Hosts {
        /// The router.
        router: String,
        /// What they do.
        host: Host,
    },
    /// All hosts at a router go, and come back some time later.
    Unhost {
        /// The router.
        router: String,
        /// The time.
        time: Duration,
    },
    /// A controller stops, and starts some time later.
    RestartController {
        /// The controller.
        controller: usize,
        /// The time.
        time: Duration,
    },
    /// The channels of all routers to a controller break, and they cannot connect again for some time.
    CutOffController {
        /// The controller.
        controller: usize,
        /// The time.
        time: Duration,
    },
    /// Nothing passes between a controller and all routers for some time, as if it was paused.
    StallController {
        /// The controller.
        controller: usize,
        /// The time.
        time: Duration,
    },
    /// Nothing happens until controllers and routers agree on all circuits. The rule that they do within this time is
    /// broken otherwise: what a router carries for nobody is also found later, when it is idle.
    Agree {
        /// The time.
        within: Duration,
    },
    /// Nothing happens for some time.
    Wait {
        /// The time.
        time: Duration,
    },
}

impl Event {
    /// Chooses an event for the world as it is; none if it has nothing to which that could happen.
    pub(crate) fn choose(
        draw: Draw,
        world: &World,
        services: &[String],
        controllers: usize,
    ) -> Option<Self> {
        let controller = draw.below(controllers);
        let routers: Vec<String> = world.routers.keys().cloned().collect();
        let up = world.links.iter().filter(|(_, link)| link.is_up).map(|(id, _)| id.clone());
        let up: Vec<String> = up.collect();
        let (router, link) = (draw.one(&routers).cloned(), draw.one(&up).cloned());
        Some(match draw.kind % 100 {
            0..28 => {
                let (service, chooses_id) = (draw.other(services)?.clone(), draw.percent(20));
                Self::Dial { router: router?, service, controller, chooses_id }
            }
            28..30 => Self::Unhost { router: router?, time: draw.millis(100, 40_000) },
            30..33 => Self::Cost { link: link?, cost: *draw.other(&[1, 30, 100])? },
            33..36 => Self::Abandon { router: router?, controller },
            36..38 => Self::EndSessions { router: router? },
            38..40 => Self::Slow { router: router?, time: draw.millis(1000, 15_000) },
            40..48 => {
                let circuits: Vec<usize> = (0..world.lives.len()).collect();
                let by_dialer = *draw.other(&[true, false])?;
                Self::HangUp { circuit: *draw.one(&circuits)?, by_dialer }
            }
            48..60 => Self::Unplug { link: link?, time: draw.millis(100, 40_000) },
            60..68 => Self::Break { link: link? },
            68..78 => Self::CutOff { router: router?, controller, time: draw.millis(500, 60_000) },
            78..83 => Self::Stall { router: router?, controller, time: draw.millis(1000, 40_000) },
            83..88 => Self::Restart { router: router?, time: draw.millis(500, 20_000) },
            88..93 => Self::Freeze { router: router?, time: draw.millis(500, 15_000) },
            93..96 => {
                let hosts = [
                    Host::Refuses,
                    Host::IsSilent,
                    Host::IsFull,
                    Host::HangsUp,
                    Host::Answers,
                    Host::Answers,
                    Host::Answers,
                ];
                Self::Hosts { router: router?, host: *draw.other(&hosts)? }
            }
            96..98 => Self::RestartController { controller, time: draw.millis(200, 10_000) },
            98 => Self::CutOffController { controller, time: draw.millis(500, 60_000) },
            _ => Self::StallController { controller, time: draw.millis(1000, 40_000) },
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial { router, service, controller, chooses_id } => {
                let id = if *chooses_id { " and chooses the id" } else { "" };
                write!(
                    f,
                    "somebody dials {service} at {router}, which asks controller {controller}{id}"
                )
            }
            Self::HangUp { circuit, by_dialer } => {
                let end = if *by_dialer { "dialer" } else { "host" };
                write!(f, "the {end} of circuit number {circuit} closes it")
            }
            Self::Break { link } => write!(f, "link {link} breaks"),
            Self::Unplug { link, time } => write!(f, "link {link} is unplugged for {time:?}"),
            Self::CutOff { router, controller, time } => {
                write!(f, "{router} is cut off from controller {controller} for {time:?}")
            }
            Self::Abandon { router, controller } => {
                write!(
                    f,
                    "{router} connects to controller {controller} anew, which has not noticed"
                )
            }
            Self::Cost { link, cost } => write!(f, "link {link} costs {cost}"),
            Self::Stall { router, controller, time } => {
                write!(
                    f,
                    "nothing passes between {router} and controller {controller} for {time:?}"
                )
            }
            Self::Restart { router, time } => {
                write!(f, "{router} stops, and starts {time:?} later")
            }
            Self::Freeze { router, time } => write!(f, "{router} is frozen for {time:?}"),
            Self::Slow { router, time } => write!(f, "{router} answers after {time:?} only"),
            Self::EndSessions { router } => write!(f, "the sessions of dialers at {router} end"),
            Self::Unhost { router, time } => {
                write!(f, "the hosts at {router} go, and are back {time:?} later")
            }
            Self::Hosts { router, host } => write!(f, "hosts at {router}: {host:?}"),
            Self::RestartController { controller, time } => {
                write!(f, "controller {controller} stops, and starts {time:?} later")
            }
            Self::CutOffController { controller, time } => {
                write!(f, "all routers are cut off from controller {controller} for {time:?}")
            }
            Self::StallController { controller, time } => {
                write!(f, "nothing passes between controller {controller} and routers for {time:?}")
            }
            Self::Agree { within } => write!(f, "all agree within {within:?}"),
            Self::Wait { time } => write!(f, "nothing happens for {time:?}"),
        }
    }
}
