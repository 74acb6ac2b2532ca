//! `divvy admission`: prepares pods for their cards and refuses those that make no sense.

use crate::DONE;
use crate::cli::GateArgs;
use crate::daemon::{LogArgs, runtime, signals};
use crate::input::isolation;
use clap::{ArgAction, Args};
use divvy_admission::{Certificates, Settings};
use divvy_api::{Api, Fence, config};
use divvy_words::{MAX_GRACE_PERIOD, keys};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy admission --gpu-sharing                        in a cluster, see deploy/
  divvy admission --gpu-sharing --tls-names 127.0.0.1  for webhooks with a url

Reviews come on /mutate, /void and /validate, health is on /livez and /readyz, metrics on /metrics; \
all over TLS. It stops a few seconds after SIGTERM.

Exit codes: 0 stopped as told, 1 wrong settings.")]
pub struct AdmissionArgs {
    /// The kubeconfig; without it as kubectl finds it, else the pod's own service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long)]
    pub context: Option<String>,
    /// Whether pods may ask for a part of a card
    #[arg(
        long, value_name = "BOOL", default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set
    )]
    pub gpu_sharing: bool,
    /// Whether containers without a grant are kept from seeing GPUs
    ///
    /// Those that set NVIDIA_VISIBLE_DEVICES are refused, and those that ask for no GPU get none
    /// from their image. Goes together with deploy/policy-visible-devices.yaml.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub block_nvidia_visible_devices: bool,
    /// The runtime class of share pods that name none; empty leaves them without
    #[arg(long, value_name = "NAME", default_value = "nvidia")]
    pub runtime_class: String,
    /// Pods with these scheduler names are divvy's
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = keys::SCHEDULER_NAMES)]
    pub scheduler_names: Vec<String>,
    /// The longest time to end that a pod with a share may ask for, in seconds
    ///
    /// If such a pod is deleted by force, its cards stay closed for the time that it asked for.
    #[arg(
        long, value_name = "SECONDS", default_value_t = MAX_GRACE_PERIOD,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub max_grace_period: u32,
    #[command(flatten)]
    pub gates: GateArgs,
    /// Settings, of which the providers of isolation are read (the file of divvy scheduler --config)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where reviews are answered; port 0 takes a free one, and the log says which
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    pub listen: SocketAddr,
    /// The namespace of the Service and the Secret
    #[arg(long, value_name = "NAME", default_value = "divvy-system")]
    pub namespace: String,
    /// The Service by which the API server reaches the webhooks
    #[arg(long, value_name = "NAME", default_value = "divvy-admission")]
    pub service: String,
    /// The Secret in which the replicas keep their CA and certificate
    #[arg(long, value_name = "NAME", default_value = "divvy-admission-tls")]
    pub secret: String,
    /// The MutatingWebhookConfiguration that is told the CA; empty for none
    #[arg(long, value_name = "NAME", default_value = "divvy")]
    pub mutating_webhooks: String,
    /// The ValidatingWebhookConfiguration that is told the CA; empty for none
    #[arg(long, value_name = "NAME", default_value = "divvy")]
    pub validating_webhooks: String,
    /// More names or addresses for the certificate, besides those of the Service
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tls_names: Vec<String>,
    /// A certificate that somebody else renews, such as cert-manager; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The CA that signs the certificates with which API servers come; read at the start
    ///
    /// Reviews are then taken from nobody else. Probes and metrics need no certificate. API servers
    /// show one if they are told so: docs/operations.md.
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

pub fn run(args: &AdmissionArgs) -> anyhow::Result<u8> {
    args.log.start()?;
    let settings = Settings {
        gpu_sharing: args.gpu_sharing,
        block_visible_devices: args.block_nvidia_visible_devices,
        runtime_class: args.runtime_class.clone(),
        scheduler_names: args.scheduler_names.clone(),
        max_grace_period: args.max_grace_period,
        isolation: isolation(args.gates.feature_gates, args.config.as_deref())?,
    };
    runtime()?.block_on(async {
        let stop = signals()?;
        let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        let api = Api::connect(config, Fence::open())?;
        let (certificates, client_ca) = (certificates(args), args.client_ca.as_deref());
        divvy_admission::run(api, settings, certificates, client_ca, args.listen, stop).await?;
        Ok(DONE)
    })
}

fn certificates(args: &AdmissionArgs) -> Certificates {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Certificates::Files { certificate: certificate.clone(), key: key.clone() };
    }
    let service = format!("{}.{}.svc", args.service, args.namespace);
    let names = [service.clone(), format!("{service}.cluster.local")];
    Certificates::Own {
        namespace: args.namespace.clone(),
        secret: args.secret.clone(),
        names: names.into_iter().chain(args.tls_names.clone()).collect(),
        mutating: args.mutating_webhooks.clone(),
        validating: args.validating_webhooks.clone(),
    }
}
