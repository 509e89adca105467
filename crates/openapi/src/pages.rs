//! All pages of a list: follows the links that an API answers with, and puts the items together.
//!
//! A program sees the value of a call and not its headers, so it could not follow them itself. Offered where the document
//! declares a `Link` header for an operation that reads a list, and done when the caller asks for it. Links lead within the
//! origin, like redirects; pages and bytes are bounded. A list of which the rest is elsewhere or beyond is a failure, never
//! a part of it.

use serde_json::{Value, json};

use crate::answer::{NextPage, next_page};
use crate::api::Api;
use crate::bounds::{MAX_ANSWER_BYTES, MAX_PAGES};
use crate::operation::Operation;
use crate::read::Draft;
use crate::schema::Converted;
use crate::transport::{ApiAnswer, ApiRequest, ApiTransport, TransportError};

/// The argument that asks for all pages.
pub(crate) fn argument() -> Draft {
    let about = "Follow the links to further pages and return the items of all of them.";
    let schema = Converted { schema: json!({ "type": "boolean", "description": about }), references: Vec::new() };
    Draft { name: "all_pages".to_owned(), prefix: "request", required: false, schema }
}

/// The result of a list from this request on.
pub(crate) async fn all(
    api: &Api,
    transport: &dyn ApiTransport,
    operation: &Operation,
    mut request: ApiRequest,
) -> Result<Value, TransportError> {
    // What to do about a list that cannot be read as a whole.
    let asked = operation.plan.all_pages.as_deref().unwrap_or("all_pages");
    let by_page = format!("ask for one page at a time, by the arguments of the operation and without `{asked}`");
    let mut items: Vec<Value> = Vec::new();
    let mut bytes = 0;
    for page in 0..MAX_PAGES {
        let same = request.clone();
        let exchanged = api.exchange(transport, request).await;
        let (answer, url) = exchanged.map_err(|error| if page == 0 { error } else { error.after_an_answer() })?;
        bytes += answer.body.len();
        if bytes > MAX_ANSWER_BYTES {
            return Err(TransportError::TooLarge { cap: MAX_ANSWER_BYTES });
        }
        let is_success = (200..300).contains(&answer.status);
        let list = serde_json::from_slice::<Vec<Value>>(&answer.body).ok().filter(|_| is_success);
        // A failure, or what the document does not know of, is the answer.
        let Some(mut list) = list else { return Ok(api.result(operation, answer, &url)) };
        items.append(&mut list);
        let here = url.origin().ascii_serialization();
        let next = match next_page(&answer, &url) {
            NextPage::End => {
                let whole = ApiAnswer { body: Value::Array(items).to_string().into_bytes(), ..answer };
                return Ok(api.result(operation, whole, &url));
            }
            NextPage::At(next) => api.with_credentials(operation, next),
            NextPage::Elsewhere(place) => {
                let why = format!("the next page is at {place}, and pages are followed within {here} alone");
                return Ok(failure(&format!("{why}: {by_page}, or set the base URL to the place of all pages")));
            }
        };
        if next == url {
            return Ok(failure(&format!("a page at {here} names itself as the next page: {by_page}")));
        }
        request = ApiRequest { url: next, ..same };
    }
    Ok(failure(&format!("there are more than {MAX_PAGES} pages: {by_page}")))
}

fn failure(message: &str) -> Value {
    json!({ "isError": true, "content": [{ "type": "text", "text": message }] })
}
