package main

import (
	"context"
	"strings"

	"bronzeward/fixtures/leakscan"
	"bronzeward/gateway/facts"
)

// broken are texts that cannot be read, each with a secret in the place that is wrong.
func (l *leak) broken(ctx context.Context) error {
	active, _ := l.w.Nodes["worker-1"].Active()
	c := func(name string) string { return l.canaries.Words("broken: " + name) }
	under := func(text string) string {
		return strings.Replace(string(active), "\nmachine:\n", "\nmachine:\n"+text, 1)
	}
	for _, text := range []string{
		"password: [" + c("no YAML"),
		c("a scalar"),
		"- " + c("a list"),
		under("    " + c("a key that is no field") + ": x\n"),
		under("    install: " + c("a text for a record") + "\n"),
		under("    certSANs: {" + c("a record for a list") + ": 1}\n"),
		under("    sysctls: {a: *" + c("an alias") + "}\n"),
		under("    sysctls: {a: !!binary " + c("a tag") + "}\n"),
		under("    sysctls: {a: !" + c("a tag's name") + " x}\n"),
		under("    sysctls: {a: \"" + c("a quoted text that does not end") + "\n"),
		under("    sysctls: {" + c("a key twice") + ": 1}\n    sysctls: {b: 2}\n"),
		under("    acceptedCAs: [{crt: " + c("a certificate that is no base64") + "}]\n"),
		under("    network: {interfaces: [{interface: eth0, addresses: [" + c("an address") + "]}]}\n"),
		strings.Replace(string(active), "endpoint: https://10.5.0.2:6443", "endpoint: \"https://u:"+c("an endpoint")+"@[bad:%zz\"", 1),
		strings.Replace(string(active), "type: worker", "type: "+l.canaries.Text("broken: a machine type"), 1),
		strings.Replace(string(active), "debug: false", "debug: "+c("a text for a truth"), 1),
		string(active) + "---\napiVersion: v1alpha1\nkind: " + c("a kind of document") + "\n",
		string(active) + "---\napiVersion: " + c("an apiVersion") + "\nkind: HostnameConfig\n",
		string(active) + "---\napiVersion: v1alpha1\nkind: WireguardConfig\nname: wg.2\nprivateKey: " + c("a key that is no key") + "\n",
		string(active) + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: out\nurl: \"tcp://u:" + c("a URL") + "@[bad\"\n",
		string(active) + "---\napiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: r\npassword: " + c("a password without a user") + "\n",
		string(active) + "---\napiVersion: v1alpha1\nkind: EnvironmentConfig\nvariables: [" + c("a list for a map") + "]\n",
		under("    files: [{content: " + c("a file's permissions") + ", permissions: x" + c("no number") + ", path: /a, op: create}]\n"),
		under("    kubelet: {extraArgs: {" + c("a flag") + ": [{x: 1}]}}\n"),
		"\x00" + c("behind a NUL"), "\xff\xfe" + c("behind no UTF-8"), "\t" + c("behind a tab") + ": x\n",
	} {
		if err := l.oneApply(ctx, "olga", []byte(text), false); err != nil {
			return err
		}
		if err := l.post(ctx, "olga", "/changes", []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// documents applies every kind of document with a secret in every field.
func (l *leak) documents(ctx context.Context) error {
	active, _ := l.w.Nodes["worker-2"].Active()
	for _, kind := range facts.DocumentKinds() {
		text, err := l.canaries.Document(kind)
		if err != nil {
			return err
		}
		if kind != leakscan.MainDocument {
			text = append(append(active[:len(active):len(active)], "---\n"...), text...)
		}
		for _, dry := range []bool{true, false} {
			if err := l.oneApply(ctx, "olga", text, dry); err != nil {
				return err
			}
		}
	}
	return nil
}
