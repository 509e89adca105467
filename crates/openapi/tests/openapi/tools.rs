//! Operations become tools.

use serde_json::{Map, Value, json};
use toolgate_openapi::{Api, DocumentLogin, LoginPlace, OperationFilter, logins, summary};
use url::Url;

use crate::{EVERYTHING, SWAGGER_2, load, settings, tool};

#[test]
fn tools_have_arguments_results_and_hints() {
    let api = load(EVERYTHING);
    for name in ["getItem", "putItem", "addShape", "addTree", "addNote", "upload"] {
        insta::assert_json_snapshot!(format!("everything_{name}"), tool(&api, name));
    }
    insta::assert_json_snapshot!("swagger2_listPets", tool(&load(SWAGGER_2), "listPets"));
}

#[test]
fn the_method_decides_about_the_hints() {
    let api = load(EVERYTHING);
    let hint = |name: &str, hint: &str| tool(&api, name)["annotations"].get(hint).cloned().unwrap_or_default();
    assert_eq!(hint("getItem", "readOnlyHint"), json!(true));
    assert_eq!(hint("putItem", "idempotentHint"), json!(true));
    assert_eq!(hint("deleteItem", "destructiveHint"), json!(true));
    assert_eq!(hint("addNote", "readOnlyHint"), json!(false));
    assert_eq!(hint("addNote", "destructiveHint"), Value::Null);
    let text = r#"{"openapi": "3.1.0", "paths": {"/x": {"head": {"operationId": "probe", "responses": {}}}}}"#;
    assert_eq!(tool(&load(text), "probe")["annotations"]["readOnlyHint"], json!(true));
}

fn schema_of(property: &str, version: &str) -> Value {
    let text = format!(
        r##"{{"openapi":"{version}","paths":{{"/x":{{"post":{{"operationId":"x","requestBody":{{"required":true,"content":
        {{"application/json":{{"schema":{{"type":"object","properties":{{"p":{property}}}}}}}}}}},"responses":{{}}}}}}}},
        "components":{{"schemas":{{"S":{{"type":"string"}},
        "Animal":{{"type":"object","required":["t"],"properties":{{"t":{{"type":"string"}}}},
          "discriminator":{{"propertyName":"t","mapping":{{"cat":"#/components/schemas/Cat","dog":"Dog"}}}}}},
        "Cat":{{"allOf":[{{"$ref":"#/components/schemas/Animal"}},{{"properties":{{"lives":{{"type":"integer"}}}}}}]}},
        "Dog":{{"allOf":[{{"$ref":"#/components/schemas/Animal"}}]}}}}}}}}"##
    );
    tool(&load(&text), "x")["inputSchema"].clone()
}

#[track_caller]
fn check_schema(property: &str, expected: Value) {
    assert_eq!(schema_of(property, "3.0.3")["properties"]["p"], expected, "{property}");
}

#[test]
fn schemas_of_3_0_become_json_schema() {
    check_schema(
        r#"{"type":"string","nullable":true,"enum":["a"]}"#,
        json!({"type": ["string", "null"], "enum": ["a", null]}),
    );
    check_schema(
        r##"{"nullable":true,"allOf":[{"$ref":"#/components/schemas/S"}]}"##,
        json!({"anyOf": [{"allOf": [{"$ref": "#/$defs/S"}]}, {"type": "null"}]}),
    );
    check_schema(
        r#"{"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":5}"#,
        json!({"type": "integer", "exclusiveMinimum": 1, "maximum": 5}),
    );
    check_schema(
        r#"{"oneOf":[{"type":"string"},{"type":"integer"}],"x-y":1,"example":3}"#,
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    );
    check_schema(r#"{"type":"any","multipleOf":0,"minLength":-1,"$id":"http://x.test/"}"#, json!({}));
    check_schema(r##"{"$ref":"other.yaml#/A"}"##, json!({}));
    check_schema(
        r##"{"$ref":"#/components/schemas/S","description":"d","type":"integer"}"##,
        json!({"$ref": "#/$defs/S", "description": "d"}),
    );
}

#[test]
fn schemas_of_3_1_keep_what_stands_beside_a_reference() {
    let schema = schema_of(r##"{"$ref":"#/components/schemas/S","maxLength":3,"const":"a"}"##, "3.1.0");
    assert_eq!(schema["properties"]["p"], json!({"$ref": "#/$defs/S", "maxLength": 3, "const": "a"}));
}

#[test]
fn a_body_of_3_1_has_what_stands_beside_its_reference() {
    let names = |version: &str| {
        let document = json!({
            "openapi": version,
            "paths": {"/x": {"post": {"operationId": "x", "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "$ref": "#/components/schemas/Pet", "properties": {"extra": {"type": "string"}}, "required": ["extra"],
            }}}}}}},
            "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}},
        });
        let schema = tool(&load(&document.to_string()), "x")["inputSchema"].clone();
        let described: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        (described, schema["required"].clone())
    };
    assert_eq!(names("3.1.0"), (vec!["name".to_owned(), "extra".to_owned()], json!(["name", "extra"])));
    assert_eq!(names("3.0.3"), (vec!["name".to_owned()], json!(["name"])));
}

#[test]
fn a_parent_with_a_discriminator_is_any_of_its_children() {
    let schema = schema_of(r##"{"$ref":"#/components/schemas/Animal"}"##, "3.0.3");
    assert_eq!(schema["properties"]["p"], json!({"$ref": "#/$defs/Animal_any"}));
    let cat = json!({"$ref": "#/$defs/Cat", "properties": {"t": {"const": "cat"}}, "required": ["t"]});
    assert_eq!(schema["$defs"]["Animal_any"]["anyOf"][0], cat);
    let valid = |value: Value| jsonschema::is_valid(&schema, &json!({ "p": value }));
    assert!(valid(json!({"t": "cat", "lives": 9})) && valid(json!({"t": "dog"})));
    assert!(!valid(json!({"t": "cat", "lives": "nine"})) && !valid(json!({"t": "cow"})));
}

#[test]
fn a_discriminator_without_a_mapping_keeps_the_values_of_its_schemas() {
    let document = |dog: Value| {
        json!({
            "openapi": "3.0.3",
            "paths": {"/x": {"post": {"operationId": "x", "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
                "discriminator": {"propertyName": "kind"},
            }}}}}}},
            "components": {"schemas": {
                "Kind": {"type": "string", "enum": ["cat"]},
                "Cat": {"type": "object", "properties": {"kind": {"$ref": "#/components/schemas/Kind"}, "lives": {"type": "integer"}}},
                "Dog": {"allOf": [{"type": "object", "properties": {"kind": dog}}]},
            }},
        })
    };
    let schema = |dog: Value| tool(&load(&document(dog).to_string()), "x")["inputSchema"].clone();
    let valid = |schema: &Value, body: Value| jsonschema::is_valid(schema, &json!({ "body": body }));
    let own = schema(json!({"enum": ["dog"]}));
    assert!(valid(&own, json!({"kind": "cat", "lives": 9})) && valid(&own, json!({"kind": "dog"})), "{own}");
    assert!(!valid(&own, json!({"kind": "cat", "lives": "nine"})) && !valid(&own, json!({"kind": "cow"})), "{own}");
    // Without values of its own, a schema goes by its name.
    let named = schema(json!({"type": "string"}));
    assert!(valid(&named, json!({"kind": "Dog"})) && !valid(&named, json!({"kind": "dog"})), "{named}");
}

#[test]
fn parts_and_both_kinds_of_alternatives_are_all_kept() {
    let schema =
        schema_of(r#"{"oneOf":[{"type":"string"}],"anyOf":[{"minLength":2}],"allOf":[{"maxLength":3}]}"#, "3.1.0");
    let valid = |value: &str| jsonschema::is_valid(&schema, &json!({ "p": value }));
    assert!(valid("ab") && !valid("a") && !valid("abcd"), "{schema}");
}

#[test]
fn a_cycle_of_references_is_a_recursive_type() {
    let schema = tool(&load(EVERYTHING), "addTree")["inputSchema"].clone();
    let valid = |value: Value| jsonschema::is_valid(&schema, &value);
    assert!(valid(json!({"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]})));
    assert!(!valid(json!({"value": 1, "children": [{"value": 2, "children": [{"value": "3"}]}]})));
}

#[test]
fn a_body_with_very_many_properties_is_one_argument() {
    for (count, expected) in [(200, 200), (201, 1)] {
        let properties: serde_json::Map<String, Value> = (0..count).map(|n| (format!("p{n}"), json!({}))).collect();
        let schema = json!({ "type": "object", "properties": properties });
        let body = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        let document =
            json!({ "openapi": "3.0.0", "paths": { "/x": { "post": { "operationId": "x", "requestBody": body } } } });
        let tool = tool(&load(&document.to_string()), "x");
        assert_eq!(tool["inputSchema"]["properties"].as_object().map(|it| it.len()), Some(expected));
    }
}

#[test]
fn rules_choose_the_operations() {
    let names = |include: &[&str], exclude: &[&str]| {
        let settings =
            toolgate_openapi::ApiSettings { filter: OperationFilter::new(include, exclude).unwrap(), ..settings(&[]) };
        let api = Api::load(EVERYTHING, settings).map_err(|error| error.to_string())?;
        Ok::<_, String>(api.operations().iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(names(&["/items/*"], &["DELETE"]).unwrap(), "getItem putItem");
    assert_eq!(names(&["tag:items"], &[]).unwrap(), "getItem");
    assert_eq!(
        names(&["tag:nothing"], &[]).unwrap_err(),
        "no operation can be called: the document has none that `include` and `exclude` leave"
    );
}

#[test]
fn a_document_names_its_servers() {
    let servers = |text: &str, origin: Option<&str>| {
        let origin = origin.map(|it| Url::parse(it).unwrap());
        let servers = summary(text, origin.as_ref()).unwrap().servers;
        servers.iter().map(Url::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(servers(EVERYTHING, None), "https://api.example.com/v1");
    assert_eq!(servers(SWAGGER_2, None), "https://old.example.com/api");
    assert_eq!(servers(r#"{"swagger":"2.0","host":"a.test","basePath":"v1"}"#, None), "https://a.test/v1");
    let relative =
        r#"{"openapi":"3.0.0","servers":[{"url":"/v{n}","variables":{"n":{"default":"2"}}},{"url":"file:///etc"}]}"#;
    assert_eq!(servers(relative, None), "");
    assert_eq!(servers(r#"{"openapi":"3.0.0","servers":[{"url":"//a.test/x"}]}"#, None), "https://a.test/x");
    assert_eq!(servers(relative, Some("http://here.test/openapi.json")), "http://here.test/v2");
}

#[test]
fn a_document_names_its_logins() {
    let check = |text: &str, expected: &str| {
        let logins = logins(text, &Url::parse("https://api.test/v1/").unwrap()).unwrap();
        let shown = logins.iter().map(|DocumentLogin { scheme, place, scopes }| {
            let place = match place {
                LoginPlace::AuthorizationCode { authorization_url, token_url } => {
                    format!("{authorization_url} {token_url}")
                }
                LoginPlace::Metadata(url) => format!("metadata {url}"),
                LoginPlace::ClientCredentials { token_url } => format!("client {token_url}"),
            };
            format!("{scheme}: {place} [{}]", scopes.join(" "))
        });
        assert_eq!(shown.collect::<Vec<_>>().join("\n"), expected);
    };
    let code =
        r#"{"authorizationUrl":"https://as.test/authorize","tokenUrl":"/token","scopes":{"a":"","b":"","c":""}}"#;
    let schemes = format!(
        r##"{{"machine":{{"type":"oauth2","flows":{{"clientCredentials":{{"tokenUrl":"https://as.test/t"}}}}}},
        "person":{{"$ref":"#/components/securitySchemes/real"}},
        "real":{{"type":"oauth2","flows":{{"implicit":{{}},"authorizationCode":{code}}}}},
        "oidc":{{"type":"openIdConnect","openIdConnectUrl":"https://id.test/.well-known/openid-configuration"}},
        "odd":{{"type":"oauth2","flows":{{"authorizationCode":{{"authorizationUrl":"javascript:1","tokenUrl":"https://as.test/t"}}}}}},
        "key":{{"type":"apiKey","in":"header","name":"K"}}}}"##
    );
    let paths = r#"{"/x":{"get":{"security":[{"key":[]},{"person":["b"]},{"person":["c"]}]},"post":{"security":[{"person":["a","b","","a b"]}]}}}"#;
    check(
        &format!(r#"{{"openapi":"3.1.0","paths":{paths},"components":{{"securitySchemes":{schemes}}}}}"#),
        "person: https://as.test/authorize https://api.test/token [a b]\n\
         real: https://as.test/authorize https://api.test/token []\n\
         oidc: metadata https://id.test/.well-known/openid-configuration []\n\
         machine: client https://as.test/t []",
    );
    let old = r#"{"swagger":"2.0","security":[{"o":["r"]}],"securityDefinitions":{"o":{"type":"oauth2","flow":"accessCode",
        "authorizationUrl":"https://as.test/a","tokenUrl":"https://as.test/t"},"i":{"type":"oauth2","flow":"implicit"}}}"#;
    check(old, "o: https://as.test/a https://as.test/t [r]");
    check(r#"{"openapi":"3.0.0"}"#, "");
}

#[test]
fn logins_and_scopes_of_a_document_are_bounded_and_those_of_people_stay() {
    let flow =
        |name: &str| json!({ name: { "authorizationUrl": "https://as.test/a", "tokenUrl": "https://as.test/t" } });
    let scheme = |n: usize| {
        // The only login of a person comes last.
        let flow = flow(if n == 99 { "authorizationCode" } else { "clientCredentials" });
        (format!("s{n:02}"), json!({ "type": "oauth2", "flows": flow }))
    };
    let schemes: Map<String, Value> = (0..100).map(scheme).collect();
    let scopes: Vec<String> = (0..500).map(|n| format!("scope{n}")).chain(["x".repeat(501)]).collect();
    let document = json!({
        "openapi": "3.1.0", "security": [{ "s99": scopes }], "components": { "securitySchemes": schemes },
    });
    let logins = logins(&document.to_string(), &Url::parse("https://api.test/").unwrap()).unwrap();
    assert_eq!((logins.len(), logins[0].scheme.as_str()), (32, "s99"));
    assert_eq!(logins[0].scopes.len(), 100);
    assert!(logins[0].scopes.iter().all(|scope| scope.starts_with("scope")));
}

#[test]
fn operations_without_an_id_are_named_after_method_and_path() {
    let text = r#"{"openapi":"3.2.0","paths":{"/a-b/{c}":{"get":{},"query":{"operationId":"q"},"additionalOperations":{"COPY":{},"CONNECT":{}},
        "trace":{}},"/d":{"get":{"operationId":"q"},"post":{"operationId":"q"}}}}"#;
    let api = load(text);
    let names: Vec<_> = api.operations().iter().map(|it| format!("{} {}", it.method, it.name)).collect();
    assert_eq!(names, ["GET get_a_b_c", "QUERY q", "COPY copy_a_b_c", "GET get_d", "POST post_d"]);
    let skipped: Vec<_> = api.skipped().iter().map(|it| it.operation.as_str()).collect();
    assert_eq!(skipped, ["CONNECT /a-b/{c}", "TRACE /a-b/{c}"]);
}
