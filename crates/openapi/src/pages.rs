//! All pages of a list: follows the links that an API answers with, and puts the items together.
//!
//! A program sees the value of a call and not its headers, so it could not follow them itself. Offered where the document
//! declares a `Link` header for an operation that reads a list, and done when the caller asks for it. Links lead within the
//! origin, like redirects; pages and bytes are bounded, and what goes beyond is a failure rather than a part.

use serde_json::{Value, json};

use crate::answer::next_page;
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
    let mut items: Vec<Value> = Vec::new();
    let mut bytes = 0;
    for _ in 0..MAX_PAGES {
        let same = request.clone();
        let (answer, url) = api.exchange(transport, request).await?;
        bytes += answer.body.len();
        if bytes > MAX_ANSWER_BYTES {
            return Err(TransportError::TooLarge { cap: MAX_ANSWER_BYTES });
        }
        let is_success = (200..300).contains(&answer.status);
        let list = serde_json::from_slice::<Vec<Value>>(&answer.body).ok().filter(|_| is_success);
        // A failure, or what the document does not know of, is the answer.
        let Some(mut list) = list else { return Ok(api.result(operation, answer, &url)) };
        items.append(&mut list);
        let Some(next) = next_page(&answer, &url) else {
            let whole = ApiAnswer { body: Value::Array(items).to_string().into_bytes(), ..answer };
            return Ok(api.result(operation, whole, &url));
        };
        request = ApiRequest { url: api.with_credentials(operation, next), ..same };
    }
    let message = format!("there are more than {MAX_PAGES} pages: ask for them by the arguments of the operation");
    Ok(json!({ "isError": true, "content": [{ "type": "text", "text": message }] }))
}
