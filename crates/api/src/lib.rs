//! The web server and the REST APIs over the controller.
