//! `api.getWeather`: the current weather at a place, from Open-Meteo or a compatible service.
//!
//! The base URL is configured and trusted; of the arguments, only two numbers become part of the URL.

use super::http::{TrustedClient, read_body};
use super::{CallContext, Coordinates, ErrorCode, FunctionError, HostFunction, SignatureError};
use reqwest::Client;
use serde_json::{Value, json};
use std::time::Duration;
use toolgate_wire::ByteBudget;
use url::Url;

const CURRENT: &str = "temperature_2m,relative_humidity_2m,apparent_temperature,is_day,precipitation,weather_code,cloud_cover,\
                       wind_speed_10m,wind_direction_10m";
/// Maximum size of a response body, in bytes.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// The weather service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeatherSettings {
    /// The service; `/v1/forecast` is added to its path.
    pub base_url: Url,
    /// Timeout of a request.
    pub timeout: Duration,
}

impl Default for WeatherSettings {
    fn default() -> Self {
        let base_url = Url::parse("https://api.open-meteo.com/").expect("a constant that parses");
        Self { base_url, timeout: Duration::from_secs(10) }
    }
}

/// `api.getWeather({latitude, longitude})`.
pub fn get_weather(settings: &WeatherSettings) -> Result<HostFunction, SignatureError> {
    let settings = settings.clone();
    let client = TrustedClient::default();
    HostFunction::builder("api.getWeather")
        .describe("The current weather at a place. Without coordinates it is the place that the request's hints name.")
        .optional("place", place_schema(), "Degrees north and east.")
        .returns(weather_schema())
        .reads_only()
        .handle(move |context, args| {
            let (settings, client) = (settings.clone(), client.clone());
            async move {
                let place = place(args.first(), &context)?;
                let client = client.get().map_err(|error| FunctionError::new(ErrorCode::Unavailable, error))?;
                current(&client, &settings, place, &context.budget).await
            }
        })
}

fn place_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "latitude": { "type": "number", "minimum": -90, "maximum": 90 },
            "longitude": { "type": "number", "minimum": -180, "maximum": 180 },
        },
        "dependentRequired": { "latitude": ["longitude"], "longitude": ["latitude"] },
        "additionalProperties": false,
    })
}

fn weather_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "latitude": { "type": "number" },
            "longitude": { "type": "number" },
            "current": { "type": "object", "additionalProperties": { "type": ["string", "number"] } },
            "current_units": { "type": "object", "additionalProperties": { "type": "string" } },
        },
        "required": ["latitude", "longitude", "current", "current_units"],
    })
}

/// The given place, or the place of the hints, with a warning in the report.
fn place(given: Option<&Value>, context: &CallContext) -> Result<Coordinates, FunctionError> {
    let degrees = |name| given.and_then(|place| place.get(name)).and_then(Value::as_f64);
    if let (Some(latitude), Some(longitude)) = (degrees("latitude"), degrees("longitude"))
        && let Some(place) = Coordinates::new(latitude, longitude)
    {
        return Ok(place);
    }
    let Some(place) = context.hints.location() else {
        let message = "api.getWeather: no coordinates were given, and the request has no location hint";
        return Err(FunctionError::new(ErrorCode::InvalidArguments, message));
    };
    context.warnings.add(format!(
        "api.getWeather: no coordinates were given; used the request's location hint ({}, {})",
        place.latitude, place.longitude
    ));
    Ok(place)
}

async fn current(
    client: &Client,
    settings: &WeatherSettings,
    place: Coordinates,
    budget: &ByteBudget,
) -> Result<Value, FunctionError> {
    let request = client.get(forecast_url(&settings.base_url, place)).timeout(settings.timeout);
    let response = request.send().await.map_err(|error| unavailable(&error))?;
    let status = response.status();
    if !status.is_success() {
        return Err(FunctionError::failed(format!("the weather service answered {status}")));
    }
    let body = read_body(response, MAX_BODY_BYTES, budget).await?.bytes;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let part = |name: &str| answer.get(name).cloned();
    let (Some(current), Some(units)) = (part("current"), part("current_units")) else {
        return Err(FunctionError::failed("the weather service answered without current weather"));
    };
    let (latitude, longitude) = (part("latitude"), part("longitude"));
    Ok(json!({
        "latitude": latitude.unwrap_or(json!(place.latitude)),
        "longitude": longitude.unwrap_or(json!(place.longitude)),
        "current": current,
        "current_units": units,
    }))
}

fn forecast_url(base: &Url, place: Coordinates) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/v1/forecast", base.path().trim_end_matches('/')));
    url.query_pairs_mut()
        .append_pair("latitude", &place.latitude.to_string())
        .append_pair("longitude", &place.longitude.to_string())
        .append_pair("current", CURRENT);
    url
}

fn unavailable(error: &reqwest::Error) -> FunctionError {
    if error.is_timeout() {
        return FunctionError::new(ErrorCode::Timeout, "the weather service did not answer in time");
    }
    FunctionError::new(ErrorCode::Unavailable, "the weather service cannot be reached")
}
