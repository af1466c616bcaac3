"""Programs on libraries of language models."""

import tempfile

import torch
from common import fill, ints, mlp, program, rnd, train


@program("transformers", "BERT: a classifier with a mask, trained")
def bert(out):
    from transformers import BertConfig, BertForSequenceClassification

    m = fill(
        BertForSequenceClassification(
            BertConfig(
                vocab_size=50,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=32,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
        ).double()
    )
    ids = ints((3, 9), 50)
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 6:] = 0
    lab = ints((3,), 2, "l")
    m.train()
    out("losses", train(m, lambda i: m(input_ids=ids, attention_mask=mask, labels=lab).loss))
    m.eval()
    out("logits", m(input_ids=ids, attention_mask=mask).logits)


@program("transformers", "GPT-2: trained, greedy and beam search with a cache")
def gpt2(out):
    from transformers import GPT2Config, GPT2LMHeadModel

    m = fill(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=50,
                n_embd=32,
                n_layer=2,
                n_head=4,
                n_positions=64,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=0,
                eos_token_id=49,
            )
        ).double()
    )
    ids = ints((3, 9), 50)
    out("losses", train(m, lambda i: m(input_ids=ids, labels=ids).loss))
    m.eval()
    out(
        "generate",
        m.generate(
            ids[:, :4],
            attention_mask=torch.ones(3, 4, dtype=torch.long),
            max_new_tokens=8,
            do_sample=False,
            pad_token_id=49,
        ),
    )
    out(
        "beam",
        m.generate(
            ids[:, :4],
            attention_mask=torch.ones(3, 4, dtype=torch.long),
            max_new_tokens=6,
            num_beams=3,
            do_sample=False,
            pad_token_id=49,
        ),
    )


@program("transformers", "LLaMA: trained, greedy search with a cache")
def llama(out):
    from transformers import LlamaConfig, LlamaForCausalLM

    m = fill(
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=50,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=48,
                max_position_embeddings=64,
            )
        ).double()
    )
    ids = ints((2, 9), 50)
    out("losses", train(m, lambda i: m(input_ids=ids, labels=ids).loss))
    m.eval()
    out(
        "generate",
        m.generate(
            ids[:, :4],
            attention_mask=torch.ones(2, 4, dtype=torch.long),
            max_new_tokens=8,
            do_sample=False,
            pad_token_id=1,
        ),
    )


@program("transformers", "T5: trained")
def t5(out):
    from transformers import T5Config, T5ForConditionalGeneration

    m = fill(
        T5ForConditionalGeneration(
            T5Config(
                vocab_size=50,
                d_model=32,
                d_kv=8,
                d_ff=48,
                num_layers=2,
                num_heads=4,
                dropout_rate=0.0,
                decoder_start_token_id=0,
            )
        ).double()
    )
    ids = ints((2, 9), 50)
    lab = ints((2, 5), 50, "l")
    out("losses", train(m, lambda i: m(input_ids=ids, labels=lab).loss))


@program("transformers", "ViT: trained")
def vit(out):
    from transformers import ViTConfig, ViTForImageClassification

    m = fill(
        ViTForImageClassification(
            ViTConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=48,
                image_size=16,
                patch_size=4,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                num_labels=3,
            )
        ).double()
    )
    x = rnd((2, 3, 16, 16))
    lab = ints((2,), 3)
    out("losses", train(m, lambda i: m(pixel_values=x, labels=lab).loss))


@program("transformers", "Whisper: trained")
def whisper(out):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    m = fill(
        WhisperForConditionalGeneration(
            WhisperConfig(
                vocab_size=60,
                num_mel_bins=8,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=32,
                decoder_ffn_dim=32,
                d_model=16,
                max_source_positions=20,
                max_target_positions=20,
                pad_token_id=1,
                bos_token_id=2,
                eos_token_id=3,
                decoder_start_token_id=2,
                dropout=0.0,
                begin_suppress_tokens=None,
                suppress_tokens=None,
            )
        ).double()
    )
    x = rnd((2, 8, 40))
    lab = ints((2, 6), 60)
    out("losses", train(m, lambda i: m(input_features=x, labels=lab).loss))


@program("transformers", "Mixtral: trained, float32")
def mixtral(out):
    torch.set_default_dtype(torch.float32)
    from transformers import MixtralConfig, MixtralForCausalLM

    m = fill(
        MixtralForCausalLM(
            MixtralConfig(
                vocab_size=50,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=48,
                num_local_experts=4,
                num_experts_per_tok=2,
                max_position_embeddings=64,
            )
        )
    )
    ids = ints((2, 9), 50)
    out("losses", train(m, lambda i: m(input_ids=ids, labels=ids).loss))


@program("transformers", "save_pretrained and from_pretrained by safetensors")
def pretrained(out):
    from transformers import GPT2Config, GPT2LMHeadModel

    m = fill(GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=1, n_head=4, n_positions=64)).double()).eval()
    with tempfile.TemporaryDirectory() as d:
        m.save_pretrained(d)
        n = GPT2LMHeadModel.from_pretrained(d, dtype=torch.float64).eval()
    ids = ints((3, 9), 50)
    out("same", (m(ids).logits - n(ids).logits).abs().max())
    out("logits", n(ids).logits)


@program("transformers", "Trainer, 20 steps, float32")
def trainer(out):
    torch.set_default_dtype(torch.float32)
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    m = fill(
        BertForSequenceClassification(
            BertConfig(
                vocab_size=50,
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=32,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
        )
    )
    data = [{"input_ids": ints((8,), 50, k), "labels": int(k % 2)} for k in range(32)]

    class T(Trainer):
        def _get_train_sampler(self, *a):
            return torch.utils.data.SequentialSampler(data)

    with tempfile.TemporaryDirectory() as d:
        t = T(
            model=m,
            args=TrainingArguments(
                output_dir=d,
                max_steps=20,
                per_device_train_batch_size=4,
                learning_rate=0.001,
                logging_steps=5,
                report_to=[],
                save_strategy="no",
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=data,
        )
        t.train()
    out("losses", [h["loss"] for h in t.state.log_history if "loss" in h])


@program("peft", "LoRA on GPT-2: trained and merged")
def lora(out):
    from transformers import GPT2Config, GPT2LMHeadModel
    from peft import LoraConfig, get_peft_model

    m = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=50,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    ).double()
    m = get_peft_model(
        m, LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True)
    )
    fill(m)
    ids = ints((3, 9), 50)
    out("trainable", sum((p.numel() for p in m.parameters() if p.requires_grad)))
    out("losses", train(m, lambda i: m(input_ids=ids, labels=ids).loss))
    merged = m.merge_and_unload()
    out("merged", merged(input_ids=ids, labels=ids).loss)


@program("accelerate", "Accelerator: prepare, accumulate, clip")
def accelerator(out):
    from accelerate import Accelerator

    acc = Accelerator(cpu=True)
    m = fill(mlp(4, 8, 1))
    opt = torch.optim.Adam(m.parameters(), lr=0.01)
    ds = torch.utils.data.TensorDataset(rnd((16, 4)), rnd((16, 1), "y"))
    dl = torch.utils.data.DataLoader(ds, batch_size=4)
    m, opt, dl = acc.prepare(m, opt, dl)
    ls = []
    for x, y in dl:
        with acc.accumulate(m):
            loss = ((m(x) - y) ** 2).mean()
            acc.backward(loss)
            acc.clip_grad_norm_(m.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            ls.append(loss.item())
    out("losses", ls)


@program("x_transformers", "a decoder with rotary embedding, trained")
def decoder(out):
    from x_transformers import TransformerWrapper, Decoder, AutoregressiveWrapper

    m = fill(
        TransformerWrapper(
            num_tokens=50,
            max_seq_len=32,
            attn_layers=Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True),
        ).double()
    )
    a = AutoregressiveWrapper(m)
    ids = ints((2, 12), 50)
    out("losses", train(m, lambda i: a(ids)))
