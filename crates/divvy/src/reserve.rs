//! `divvy reserve`: what runs in a reservation pod.

use crate::DONE;
use crate::daemon::{LogArgs, runtime, signals};
use clap::Args;
use divvy_api::{Api, Fence, config};
use divvy_words::{keys, reservation};
use std::path::Path;

#[derive(Args)]
#[command(after_help = "\
Started by divvy scheduler in pods of the namespace kai-resource-reservation, one for each card that \
is shared; nobody else needs it. It holds the pod's card until SIGTERM, and writes the card's UUID \
and its number (that of /dev/nvidia<number>) on the pod where it may. Nobody else says the number, \
and no kubelet before Kubernetes 1.36 the UUID.

Exit codes: 0 stopped as told.")]
pub struct ReserveArgs {
    #[command(flatten)]
    pub log: LogArgs,
}

pub fn run(args: &ReserveArgs) -> anyhow::Result<u8> {
    args.log.start()?;
    runtime()?.block_on(async {
        let stop = signals()?;
        let say = tokio::spawn(say());
        stop.await;
        say.abort();
        Ok(DONE)
    })
}

/// Says which card this is, as well as it can: the card is held in any case.
async fn say() {
    let visible = std::env::var(keys::ENV_VISIBLE_DEVICES).ok();
    let card = match divvy_node::own_card(visible.as_deref()) {
        Ok(card) => card,
        Err(why) => return tracing::warn!(%why, "this card is not known here"),
    };
    let number = divvy_node::own_number(Path::new("/dev"));
    tracing::info!(card, number, "holding");
    let Ok(pod) = std::env::var("POD_NAME") else {
        return tracing::info!("no POD_NAME: nobody to write it on");
    };
    let namespace = std::env::var("POD_NAMESPACE");
    let namespace = namespace.unwrap_or_else(|_| reservation::NAMESPACE.to_owned());
    let found = config(None, None).await.and_then(|config| Api::connect(config, Fence::open()));
    match found {
        Ok(api) => divvy_node::report(&api, &namespace, &pod, &card, number).await,
        Err(why) => {
            tracing::info!(%why, "no way to the API: the kubelet has to say which card this is");
        }
    }
}
