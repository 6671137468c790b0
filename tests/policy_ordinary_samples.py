"""Ordinary commands that look like dangerous ones: sources, secrets, launchers and settings."""

from __future__ import annotations

ORDINARY = r"""
git clean -nfdx
cat > a.json <<< '{"a": 1}'
jq . > out.json 2>/dev/null <<< "$json"
make test 2>&1 | tee >(tail -20)
declare -A m=([k]=v); echo "${m[k]}"
printf 'test:\n\tpytest\n' > Makefile && make test
echo '{"scripts":{"build":"tsc"}}' > package.json && npm run build
find ~ -name '*.py' | xargs wc -l
find / -name '*.conf' -exec grep -l x {} +
strace -o out.txt ls
java -jar app.jar
git send-email --smtp-server=smtp.example.org x.patch
git clean -fdxn
git clean -ndx
git clean -fdn
D=$(mktemp -d); trap 'rm -rf "$D"' EXIT; make DESTDIR="$D" install
tmp=$(mktemp -d) && trap "rm -rf $tmp" EXIT && cp a "$tmp"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT INT TERM; cd "$work"; git clone /srv/x y
cleanup() { rm -rf "$scratch"; }; scratch=$(mktemp -d); trap cleanup EXIT; make
t=$(mktemp -d -t foo.XXXX); cp -r src "$t"/x; rm -rf "$t"/x
D="$(mktemp -d)"; rm -rf "$D"/out "${D}/b"
build_dir=`mktemp -d`; trap 'rm -rf "$build_dir"' 0
curl -X DELETE http://localhost:8080/items/3
curl -XDELETE http://127.0.0.1:9200/test-index
curl -s -X DELETE 'http://[::1]:3000/api/users/1'
http DELETE :8000/items/1
http DELETE localhost:8000/items/1
curl --request DELETE http://0.0.0.0:5000/x -H 'Accept: application/json'
rsync -av --delete build/ public/
rsync -a --delete src/assets/ web/static/
rsync -r --delete docs/_build/html/ site/
pnpm dlx degit a/b c
npx degit user/repo my-app
npx tiged user/repo app
yarn dlx degit a/b
npx create-next-app@latest -e user/repo my-app
bunx degit a/b c
npm exec degit a/b c
systemctl status nginx
systemctl --user daemon-reload
systemctl list-units
systemctl is-enabled x
systemctl cat sshd
systemctl show-environment
systemctl restart nginx
systemctl start postgresql
systemctl enable docker
sudo systemctl enable --now docker
gpg --export me@x > pub.asc
gpg --list-secret-keys
gpg --armor --export me
gpg --verify x.sig x
kubectl get secret db
kubectl get secrets
kubectl get secrets -n x
kubectl describe secret db
kubectl apply -f k8s/
kubectl apply -f deploy.yaml
kubectl apply -k overlays/dev
kubectl create -f x.yaml --dry-run=client -o yaml
helm install x ./chart
helm upgrade --install x bitnami/redis
helm repo add bitnami https://charts.bitnami.com/bitnami
helm repo update
docker compose -f docker-compose.dev.yml up -d
docker build -t x .
docker build -f docker/Dockerfile .
terraform init
terraform init -upgrade
terraform init -backend-config=x
python3 - a b < script.py
echo 'print(1)' | python3 - x
curl -s http://localhost:8000/x.json | python3 -m json.tool
curl -s https://api.github.com/x | python3 -c 'import json,sys; print(json.load(sys.stdin)["x"])'
curl -s https://api.github.com/x | node -pe 'JSON.parse(require("fs").readFileSync(0)).x'
curl -s https://x/y | perl -ne 'print if /x/'
curl -s https://x/y | ruby -rjson -e 'puts JSON.parse(STDIN.read)["a"]'
curl -s https://x/y | awk '{print $1}'
curl -s https://x/y | python3 scripts/parse.py
curl -s https://x/y | python3 scripts/parse.py -
curl -s https://x/y | node scripts/x.js
curl -s https://x/y | uv run scripts/x.py
curl -s https://x/y.sql | psql mydb -f -
node -e "fetch('http://localhost:3000/health').then(r=>r.text()).then(console.log)"
node -e "require('https').get('https://x/y',r=>r.pipe(process.stdout))"
python3 -c "import requests; print(requests.get('https://x').json())"
python3 -c "import requests; r=requests.get('https://x'); print(r.status_code)"
node -e "fetch('https://x').then(async r=>{const m=/a/.exec(await r.text());console.log(m)})"
pip install -r requirements.txt
pip install --index-url https://pypi.org/simple x
pip install -i https://pypi.tuna.tsinghua.edu.cn/simple x
pip install torch --index-url https://download.pytorch.org/whl/cpu
pip install --extra-index-url https://download.pytorch.org/whl/cu121 torch
pip install --trusted-host pypi.org --trusted-host files.pythonhosted.org x
pip install -e '.[dev]'
pip uninstall -y x
pip uninstall -y -r requirements-old.txt
pip freeze > requirements.txt
pip freeze | grep -v x | xargs pip download
uv pip install --index-url https://pypi.org/simple x
conda install -c conda-forge numpy
conda config --add channels conda-forge
conda create -n x python=3.11 -y
npm install --registry https://registry.npmjs.org x
npm config set registry https://registry.npmjs.org/
npm config get registry
yarn config set npmRegistryServer http://localhost:4873
npm install --registry=http://localhost:4873
gem install x
gem sources --list
bundle config set --local path vendor/bundle
cargo install ripgrep --locked
cargo add serde --features derive
GOPROXY=https://proxy.golang.org,direct go mod download
GOPROXY=off go build ./...
GOPROXY=direct go get x
GOFLAGS=-mod=vendor go build
GOPRIVATE=github.com/me/* go mod tidy
GONOSUMDB=github.com/me/* go mod tidy
go env -w GOPRIVATE=github.com/me
PERL5OPT=-w perl x
PERL5OPT=-MDevel::Cover prove -l t
PERL5OPT=-Mstrict perl x
RUBYOPT=-W0 ruby x
RUBYOPT=-rbundler/setup ruby x
RUBYOPT='-W:no-deprecated' bundle exec rspec
NODE_OPTIONS=--experimental-vm-modules npx jest
NODE_OPTIONS='--require ts-node/register' mocha
NODE_OPTIONS='--import tsx' npm test
NODE_OPTIONS=--openssl-legacy-provider npm run build
NODE_OPTIONS='-r dotenv/config' node x
NODE_OPTIONS='--require ./test/setup.js' mocha
PYTHONSTARTUP=~/.pythonrc python3
make -C sub -j8
make -e CC=clang
make CC=gcc CFLAGS='-O2 -g'
yarn exec eslint .
yarn exec -- tsc --noEmit
pnpm exec vitest run
pnpm -r exec tsc
npx -c 'eslint .'
npm exec -- eslint .
bun run build
bun run test
bun x vitest
poetry run pytest -q
uv run pytest -q
uv run -m pytest
uv run --with x python -c 'print(1)'
uvx ruff check .
pipenv run python manage.py migrate
bundle exec rspec
bundle exec rails db:migrate
hatch run test
hatch run lint:all
pdm run test
tox -e py311 -- -k x
nox -s tests -- -x
mise exec -- make
lerna exec -- npm run build
cargo watch -x test
cargo run -- --help
cargo run --release -- rm x
go run . -- x
go test -exec sudo ./...
composer exec phpunit
rails runner 'puts User.count'
python manage.py shell -c "print(1)"
mix run -e 'IO.puts(1)'
awk '{print > "out/" $1 ".txt"}' x
awk '{print $1 | "sort"}' x
awk '{print | "sort -u"}' x
awk -F: '{print $1}' /etc/passwd
awk 'BEGIN{while(("ls" | getline l)>0) print l}'
mount
mount | grep tmpfs
losetup -a
losetup --list
swapon --show
findmnt /home
df -h
find . -name '*.pem'
find . -name .env
find tests -name '*.key' -print
find / -name 'libssl*.so*' 2>/dev/null
find /usr -name '*.h' | head
find ~/.cache -name '*.tmp'
find /usr/share -name '*token*'
find / -name python3 -type f 2>/dev/null
grep -rn password src
grep -r 'SECRET_KEY' .
rg token src/
exec 3< input.txt; read -r x <&3
exec 3>&1; make 2>&1 >&3
exec > log.txt 2>&1
git clone https://github.com/x/y
git clone https://github.com/x/y && cd y && git log
git clone https://github.com/x/y && ls y
git clone --depth 1 https://github.com/x/y /tmp/y && cat /tmp/y/README.md
git clone https://github.com/x/y && grep -rn TODO y
git clone https://github.com/x/y && wc -l y/*.py
curl -L https://x/y.tgz | tar xz
curl -LO https://x/y.tgz && tar xf y.tgz && ls y
git clone . /tmp/copy && cd /tmp/copy && make test
git clone --local . ../copy && cd ../copy && ./run.sh
git clone /srv/repo.git work && cd work && make
printf '%o\n' 8
printf '%03o\n' 493
printf "%x" 255
ssh -F ~/.ssh/config host ls
ssh -F ./ssh_config vagrant@default ls
scp -F ~/.ssh/config a b:
vagrant ssh-config > ssh.conf && ssh -F ssh.conf default
python -m timeit 'sum(range(100))'
python3 -m timeit -s 'import json' 'json.dumps({})'
python -m pdb -c continue x.py
ipython -c 'print(1)'
python3 -m cProfile -s cumtime x.py
python3 -c 'import os; print(os.getcwd())'
vault status
vault kv list secret/
pass ls
op --version
aws secretsmanager list-secrets
aws sts get-caller-identity
gcloud auth list
gcloud config list
gcloud secrets list
gh auth status
az account show
security list-keychains
ssh-keygen -t ed25519 -f ./test_key -N ''
ssh-keyscan github.com
update-alternatives --list python
git config --global user.name x
git config --global init.defaultBranch main
git config --global pull.rebase true
git remote set-url origin git@github.com:me/x.git
cp x ~/.local/bin/mytool
docker run --rm -e CI=1 -v "$PWD":/w -w /w node:20 npm test
docker exec -i db psql -U me < dump.sql
curl -H "Authorization: Bearer $GITHUB_TOKEN" https://api.github.com/user
curl -H "Authorization: token $TOKEN" https://api.example.com/v1/x
env-cmd -f .env npm start
dotenv -e .env -- npm start
ruby -ropen-uri -e 'puts URI.open("https://x").read'
php -r 'echo file_get_contents("https://x");'
php -r 'include "vendor/autoload.php"; echo 1;'
perl -MLWP::Simple -e 'print get("https://x")'
python3 -c "import ast; print(ast.literal_eval('[1]'))"
python3 -c "import re,urllib.request as u; print(re.compile('x').findall(u.urlopen('https://x').read().decode()))"
rm -rf "$BUILD_DIR"/x
tmpdir=$(mktemp -d); (cd "$tmpdir" && tar xf x.tgz); rm -rf "$tmpdir"
npm ls -g --depth=0
docker images -q
kubectl get pods -o name
brew list
apt list --installed
echo "$GITHUB_TOKEN" | gh auth login --with-token
echo "$DOCKER_PASSWORD" | docker login -u me --password-stdin
curl -H "Authorization: Bearer $OPENAI_API_KEY" https://api.openai.com/v1/models
curl -H "Authorization: token $GITHUB_TOKEN" https://api.github.com/repos/x/y
curl -u "$USER:$PASSWORD" https://nexus.example.com/x
curl -H "X-API-Key: $API_KEY" https://api.example.com/v1
curl -X POST -d "client_secret=$CLIENT_SECRET" https://login.example.com/token
curl -H "Authorization: Bearer $(gcloud auth print-access-token)" https://x.googleapis.com/v1
curl -H "Authorization: Bearer $(gh auth token)" https://api.github.com/user
TOKEN=$(gh auth token) make release-notes
export GITHUB_TOKEN=$(gh auth token)
kubectl get secret db -o jsonpath='{.data.password}' | base64 -d
PGPASSWORD=$(kubectl get secret db -o jsonpath='{.data.p}' | base64 -d) psql -h localhost
vault kv get secret/x
pg_dump mydb > dump.sql
pg_dump mydb | gzip > dump.sql.gz
pg_dump a | psql b
tar czf - . | ssh host 'tar xzf - -C /srv'
tar czf release.tgz .
tar cf - . | docker exec -i web tar xf -
tar czf - src | wc -c
find . -type f -exec grep -l x {} +
find . -type f -name '*.orig' -exec rm {} \;
find . -type d -name __pycache__ -exec rm -rf {} +
while read -r f; do echo "$f"; done < list
while IFS= read -r line; do printf '%s\n' "$line"; done < x
openssl rsa -in server.key -pubout
cat server.key | openssl rsa -check
openssl x509 -in cert.pem -noout -text
openssl s_client -connect localhost:443
curl -X POST -F file=@report.xml http://localhost:8080/upload
curl -d @.env.example http://localhost
snap install jq
dnf install -y gcc
apk add --no-cache git
php -S localhost:8000
npx serve dist
npx http-server ./public -p 8080
docker context ls
docker run --network host x
git -c user.name=x commit -m y
git -c core.editor=true rebase --continue
git -c http.extraHeader="Authorization: x" fetch
python3 -u script.py | tee log
python3 < script.py
node < x.js
cat data.json | node scripts/x.js
cat data | python3 -c 'import sys; print(len(sys.stdin.read()))'
cat data | python3 -m json.tool
cat x | perl -pe 's/a/b/'
cat x | ruby -ne 'puts $_'
cat x | awk -f script.awk
cat x | jq . | python3 -m json.tool
gunzip -c x.gz | python3 parse.py
echo '1+1' | python3 -i
echo 'select 1' | psql
echo 'puts 1' | ruby
mix test
mix deps.get
iex -S mix
ipython --version
rails runner scripts/x.rb
rake test
wp plugin list
flask run
django-admin startproject x
bun install
bun test
bun add x
lerna run build
nx test app
nx affected -t build
tox
tox -e lint
composer install
composer exec -- phpstan analyse
devbox run test
asdf install
fnm use 18
nvm use 18
nvm install 20
dotenv run -- pytest
hatch run test:cov
make test ARGS='-k foo -x'
make CC='ccache gcc' -j4
make -e
uv run - < script.py
yarn run test --watch
npm run build -- --rm x
yarn run clean
bun run clean
pnpm run rm-dist
npm run lint -- --fix src
ssh host uptime
ssh host 'ls -la'
cat key.pub | ssh host 'cat >> x'
ssh host bash -s < deploy-check.sh
echo ls | ssh host bash
cargo add tokio --features full
cargo install --path .
cargo install cargo-nextest --locked
pip install --no-deps -e .
pip install -i https://mirrors.aliyun.com/pypi/simple/ x
uv sync --frozen
uv pip compile requirements.in -o requirements.txt
uv add --dev pytest
npm ci --prefer-offline
npm i -D typescript
npm audit fix
npm config set fund false
npm set audit false
yarn config set enableTelemetry 0
poetry source add --priority=supplemental x https://download.pytorch.org/whl/cpu
poetry config virtualenvs.in-project true
conda env create -f environment.yml
helm dependency update chart
helm template x ./chart -f values.yaml
helm lint chart
docker compose up -d --build
docker buildx build --platform linux/amd64 -t x .
docker build --build-arg X=https://example.com/y -t x .
docker build -t ghcr.io/me/x:latest .
kubectl config set-context --current --namespace=x
kubectl port-forward svc/x 8080:80
kubectl create secret generic x --from-literal=a=b --dry-run=client -o yaml > s.yaml
kubectl create configmap x --from-file=y
kubectl create namespace x
ansible-galaxy collection install community.general
ansible-playbook -i hosts site.yml --check
terraform plan -out plan.tfplan
gem install bundler
bundle config set without production
bundle install --jobs 4
GOFLAGS=-count=1 go test ./...
GOOS=linux GOARCH=arm64 go build ./...
go install golang.org/x/tools/cmd/goimports@latest
go env GOPATH
RUSTFLAGS='-C target-cpu=native' cargo build --release
RUSTFLAGS="-D warnings" cargo clippy
CARGO_TARGET_DIR=/tmp/target cargo test
CARGO_HOME=/tmp/cargo cargo build
umount /mnt/usb
mount /dev/sdb1 /mnt/usb
ls -la ~/.ssh
git clone https://github.com/x/y /tmp/y && git -C /tmp/y log -1
git clone https://github.com/x/y && cd y && npm install && npm test
git clone https://github.com/x/y.git && cd y && pip install -e .
git clone https://github.com/x/y && cd y && cargo build
git clone https://github.com/x/y && cp y/x.conf .
curl -sL https://x/y.tar.gz | tar xz -C vendor && make
curl -LO https://x/y.zip && unzip y.zip && npm test
systemctl --user status x
systemctl start ./x
chsh -l
ln -s /usr/local/bin/x y
cp dist/tool /usr/local/bin/tool
install -m 755 build/tool ~/.local/bin/tool
tar -C /tmp/x -xf a.tar
tar xf a.tar -C build
unzip -q a.zip -d out
printf '%5d\n' 3
printf '%s %x\n' a 255
aws ecr get-login-password | docker login --username AWS --password-stdin x
aws s3 cp x s3://y/
exec 3<file; while read -r l <&3; do echo "$l"; done; exec 3<&-
cmd 2>&1 | tee x
sort <(ls a) <(ls b)
diff <(curl -s https://x/a) <(curl -s https://x/b)
""".strip().splitlines()
