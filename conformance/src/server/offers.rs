//! Resources, templates and prompts.

use mcp_server::protocol::content::{ContentBlock, EmbeddedResource, Role};
use mcp_server::protocol::prompts::{Prompt, PromptArgument, PromptMessage};
use mcp_server::protocol::resources::{Resource, ResourceContents, ResourceTemplate};
use mcp_server::{
    CompletionRequest, McpServer, PromptArguments, ReadRequest, prompt, resource, resource_template,
};

use crate::tools::{PNG, image};

pub(crate) fn add(server: McpServer) -> McpServer {
    let text =
        Resource::new("test://static-text", "static-text").description("Text.").mime_type("text/plain");
    let binary = Resource::new("test://static-binary", "static-binary")
        .description("A picture.")
        .mime_type("image/png");
    let watched =
        Resource::new("test://watched-resource", "watched").description("Changes.").mime_type("text/plain");
    let template = ResourceTemplate::new("test://template/{id}/data", "template")
        .description("Data by id.")
        .mime_type("application/json");
    prompts(server)
        .resource(resource(text, || async { "This is the content of the static text resource." }))
        .resource(resource(binary, || async {
            ResourceContents::new("test://static-binary").mime_type("image/png").blob(PNG)
        }))
        .resource(resource(watched, || async { "This may change." }))
        .template(resource_template(template, |request: ReadRequest| async move {
            let id = request.variable("id");
            serde_json::json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")})
                .to_string()
        }))
}

fn prompts(server: McpServer) -> McpServer {
    let argument = |name: &str| PromptArgument::new(name).description("An argument.").required(true);
    let with_arguments = Prompt::new("test_prompt_with_arguments")
        .description("Takes two arguments.")
        .arguments([argument("arg1"), argument("arg2")]);
    let with_resource = Prompt::new("test_prompt_with_embedded_resource")
        .description("Holds a resource.")
        .arguments([argument("resourceUri")]);
    server
        .prompt(prompt(Prompt::new("test_simple_prompt").description("Says a sentence."), || async {
            "This is a simple prompt for testing."
        }))
        .prompt(
            prompt(with_arguments, |arguments: PromptArguments| async move {
                format!(
                    "Prompt with arguments: arg1='{}', arg2='{}'",
                    arguments.get("arg1"),
                    arguments.get("arg2")
                )
            })
            .complete("arg1", |request: CompletionRequest| async move {
                ["test1", "test2", "other"].into_iter().filter(move |name| name.starts_with(&request.value))
            }),
        )
        .prompt(prompt(with_resource, |arguments: PromptArguments| async move {
            let contents = ResourceContents::new(arguments.get("resourceUri"))
                .mime_type("text/plain")
                .text("Embedded resource content for testing.");
            vec![
                PromptMessage::new(Role::User, EmbeddedResource::new(contents)),
                PromptMessage::new(Role::User, "Please process the embedded resource above."),
            ]
        }))
        .prompt(prompt(Prompt::new("test_prompt_with_image").description("Shows a picture."), || async {
            vec![
                PromptMessage::new(Role::User, image()),
                PromptMessage::new(Role::User, ContentBlock::text("Please analyze the image above.")),
            ]
        }))
}
