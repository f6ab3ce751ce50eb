//! Whose certificates the port between nodes believes.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::{danger::HandshakeSignatureValid, verify_server_cert_signed_by_trust_anchor},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime},
    server::{
        ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

/// Those that the authority has signed and that are good for a server as well: others connect to a node. One for a client
/// alone is none of a node, where one authority signs for both.
#[derive(Debug)]
pub(super) struct NodeVerifier {
    signed: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl NodeVerifier {
    /// `signed` believes all that `roots` have signed.
    pub(super) fn new(
        signed: Arc<dyn ClientCertVerifier>,
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { signed, roots, provider }
    }
}

impl ClientCertVerifier for NodeVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(shown, intermediates, now)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let shown = ParsedCertificate::try_from(shown)?;
        verify_server_cert_signed_by_trust_anchor(&shown, &self.roots, intermediates, now, algorithms)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use rustls::server::WebPkiClientVerifier;

    use super::*;
    use crate::tls::provider;

    #[test]
    fn a_certificate_for_clients_is_of_no_node() {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.self_signed(&key).unwrap().der().clone()).unwrap();
        let (roots, authority) = (Arc::new(roots), Issuer::new(authority, key));
        let signed = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
        let nodes = NodeVerifier::new(signed.build().unwrap(), roots, provider());
        let (server, client) = (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
        for (usages, is_of_node) in
            [(vec![server.clone(), client.clone()], true), (vec![client], false), (vec![server], false)]
        {
            let mut shown = CertificateParams::new(["node1".to_owned()]).unwrap();
            shown.extended_key_usages = usages;
            let shown = shown.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
            let verified = nodes.verify_client_cert(shown.der(), &[], UnixTime::now());
            assert_eq!(verified.is_ok(), is_of_node, "{verified:?}");
        }
    }
}
